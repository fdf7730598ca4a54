//! Everything at once, over many seeds.

use recado_log::Durability;
use recado_log::sim::chaos;

use crate::world::seeds;

#[test]
fn nothing_committed_is_lost_whatever_happens() {
    for seed in seeds(40) {
        println!("seed {seed}");
        chaos::play(seed, Durability::Sync);
    }
}

#[test]
fn with_durability_os_nothing_written_is_lost_whatever_happens_but_power_loss() {
    for seed in seeds(20) {
        println!("seed {seed}");
        chaos::play(seed, Durability::Os);
    }
}
