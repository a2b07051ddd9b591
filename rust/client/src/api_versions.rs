//! Which version of each API a broker speaks.
