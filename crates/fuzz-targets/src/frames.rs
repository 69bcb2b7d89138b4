//! Frames: whatever is read survives being written and read again, and reading costs no more than
//! the bytes.

use proto::wire::{Frame, Frames};

/// Any payload.
pub fn run(data: &[u8]) {
    let mut count = 0;
    for frame in Frames::new(data) {
        count += 1;
        // Work follows the input: a frame takes a byte, and what it names can be walked within the
        // limits.
        assert!(count <= data.len().max(1), "more frames than bytes");
        match frame {
            Ok(frame) => {
                walk(&frame, data.len());
                reads_back(&frame);
            }
            Err(error) => {
                let _ = (error.to_string(), proto::TransportError::from(error));
            }
        }
    }
}

/// Walks everything lazy.
fn walk(frame: &Frame<'_>, size: usize) {
    match frame {
        Frame::Ack(ack) => {
            let mut below = u64::MAX;
            let mut ranges = 0;
            for range in ack.ranges() {
                assert!(range.start() <= range.end() && *range.end() < below, "ranges of an ACK descend");
                below = range.start().saturating_sub(1);
                ranges += 1;
            }
            assert!((1..=size).contains(&ranges));
        }
        Frame::Repair(repair) => {
            assert!(repair.members.packets().is_sorted_by(|a, b| a < b));
            assert_eq!(repair.members.packets().count() as u64, repair.members.packet_count());
        }
        Frame::Recovered(recovered) => {
            assert!(recovered.packets.packets().is_sorted_by(|a, b| a < b));
            assert_eq!(recovered.packets.packets().count() as u64, recovered.packets.packet_count());
        }
        _ => {}
    }
}

fn reads_back(frame: &Frame<'_>) {
    let mut wire = Vec::new();
    frame.encode(&mut wire);
    let mut frames = Frames::new(&wire);
    let again = frames.next().expect("a frame was written").expect("what we write can be read");
    assert_eq!(&again, frame);
    assert!(frames.next().is_none(), "one frame was written");
    let mut twice = Vec::new();
    again.encode(&mut twice);
    assert_eq!(twice, wire, "our own form is stable");
    assert_eq!(again.is_ack_eliciting(), frame.is_ack_eliciting());
}
