"""Several keys together: queries, joint laws of views, conditionals, what data leave open."""
