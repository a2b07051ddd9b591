//! Random values of all field types, derived from a seed.

use bytes::Bytes;

use crate::messages::types::{Cx, Hidden, Uuid};

/// A splitmix64 generator. The seed is its whole state, so one number is enough to reproduce a failure.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns a random number. Boundary values are more frequent than in a uniform distribution.
    fn number(&mut self) -> i64 {
        match self.below(6) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => i64::MIN,
            4 => self.below(200) as i64,
            _ => self.next() as i64,
        }
    }
}

pub(crate) trait Arbitrary: Sized {
    fn arbitrary(cx: Cx, nullable: bool, random: &mut Random) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Arbitrary for $type {
            fn arbitrary(_: Cx, _: bool, random: &mut Random) -> Self {
                random.number() as $type
            }
        }
    )*};
}

numbers!(i8, i16, u16, i32, i64, f64);

impl Arbitrary for bool {
    fn arbitrary(_: Cx, _: bool, random: &mut Random) -> Self {
        random.below(2) == 1
    }
}

impl Arbitrary for Uuid {
    fn arbitrary(_: Cx, _: bool, random: &mut Random) -> Self {
        Uuid((u128::from(random.next()) * 0x1_0000_0001).to_be_bytes())
    }
}

impl Arbitrary for String {
    fn arbitrary(_: Cx, _: bool, random: &mut Random) -> Self {
        match random.below(12) {
            0 => String::new(),
            1 => "größe\0".to_owned(),
            // From a length of 127 on, compact lengths take two bytes. Lengths close to this limit are tested more
            // often.
            2 => "x".repeat(125 + random.below(5) as usize),
            _ => format!("t{}", random.below(1000)),
        }
    }
}

impl Arbitrary for Bytes {
    fn arbitrary(_: Cx, _: bool, random: &mut Random) -> Self {
        (0..random.below(20)).map(|_| random.next() as u8).collect()
    }
}

impl Arbitrary for Hidden {
    fn arbitrary(cx: Cx, nullable: bool, random: &mut Random) -> Self {
        Hidden(Bytes::arbitrary(cx, nullable, random))
    }
}

impl<T: Arbitrary> Arbitrary for Vec<T> {
    fn arbitrary(cx: Cx, _: bool, random: &mut Random) -> Self {
        (0..random.below(4)).map(|_| T::arbitrary(cx, false, random)).collect()
    }
}

impl<T: Arbitrary> Arbitrary for Option<T> {
    fn arbitrary(cx: Cx, nullable: bool, random: &mut Random) -> Self {
        if nullable && random.below(4) == 0 { None } else { Some(T::arbitrary(cx, false, random)) }
    }
}
