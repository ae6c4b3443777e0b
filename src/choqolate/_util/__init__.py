"""What all rooms share: checks, text, durable files, processes, progress, device."""
