"""Several keys together: queries, joint laws of views, conditionals and identified ranges."""
