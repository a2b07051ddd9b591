//! Every message at every version: round trips, hostile bytes, other clients' bytes.
pub(crate) struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn number(&mut self) -> i64 {
        match self.below(5) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => self.below(200) as i64,
            _ => self.next() as i64,
        }
    }
}
pub(crate) fn camel(s: &str) -> String {
    let mut up = false;
    s.trim_end_matches('_')
        .chars()
        .filter_map(|c| {
            if c == '_' {
                up = true;
                None
            } else if up {
                up = false;
                Some(c.to_ascii_uppercase())
            } else {
                Some(c)
            }
        })
        .collect()
}
pub(crate) fn base64(_b: &[u8]) -> String {
    String::new()
}
pub(crate) fn base64_url(_b: &[u8]) -> String {
    String::new()
}
pub(crate) fn from_base64(_s: &str) -> Vec<u8> {
    vec![]
}
