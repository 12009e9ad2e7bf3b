//! The host queue in front of a device: plug, merge, dispatch; the elevators by name.
