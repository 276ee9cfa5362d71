"""One folder a service, all of one shape; services never import each other, they meet in events and objects."""
