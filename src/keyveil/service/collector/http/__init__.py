"""The collector over HTTP: routes, who may call them, what a request holds, what is answered."""
