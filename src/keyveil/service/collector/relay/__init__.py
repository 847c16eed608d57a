"""The relay: it holds reports until there are enough, shuffles them, and sends them on."""
