"""The operating system as all our processes see it: processes, kernel files, our own files.

Standard library only. Imports nothing else of ours."""
