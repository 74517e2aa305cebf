//! What a link does with frames, by subject. The state is in the files of `link`.

mod arq;
mod by_time;
mod damaged;
mod evented;
mod idle;
mod impairments;
mod plain;
mod service;
mod shared;
