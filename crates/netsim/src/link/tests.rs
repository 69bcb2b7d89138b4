//! Timelines to the nanosecond, limits, and bookkeeping.
