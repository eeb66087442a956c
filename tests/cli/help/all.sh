# Help and version need no verb; they are data, on standard output.
q --help
q -h >short
q --help | cmp - short
