//! All that the simulated drives are tested for.
mod clock;
mod controller;
mod device;
mod drives;
mod host;
mod models;
mod power_cut;
mod replay;
mod requests;
mod traces;
