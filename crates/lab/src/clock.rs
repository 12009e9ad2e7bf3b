//! Virtual time: threads of which exactly one holds the baton, and events in order of time.
