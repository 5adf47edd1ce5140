"""What browsers need: the guard against other sites, the login, the first page."""
