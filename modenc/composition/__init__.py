"""How the modules of a language act on the shared body."""
