"""Why a service is in its state, in sentences for people."""
