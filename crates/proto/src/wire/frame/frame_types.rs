macro_rules! types {
    ($($name:ident = $value:literal;)*) => {
        $(#[doc = concat!("Frame type ", stringify!($value), ".")] pub const $name: u64 = $value;)*
    };
}

types! {
    PADDING = 0x00;
    PING = 0x01;
    ACK = 0x02;
    ACK_ECN = 0x03;
    RESET_STREAM = 0x04;
    STOP_SENDING = 0x05;
    CRYPTO = 0x06;
    NEW_TOKEN = 0x07;
    STREAM = 0x08;
    STREAM_LAST = 0x0f;
    MAX_DATA = 0x10;
    MAX_STREAM_DATA = 0x11;
    MAX_STREAMS_BIDI = 0x12;
    MAX_STREAMS_UNI = 0x13;
    DATA_BLOCKED = 0x14;
    STREAM_DATA_BLOCKED = 0x15;
    STREAMS_BLOCKED_BIDI = 0x16;
    STREAMS_BLOCKED_UNI = 0x17;
    NEW_CONNECTION_ID = 0x18;
    RETIRE_CONNECTION_ID = 0x19;
    PATH_CHALLENGE = 0x1a;
    PATH_RESPONSE = 0x1b;
    CONNECTION_CLOSE = 0x1c;
    CONNECTION_CLOSE_APPLICATION = 0x1d;
    HANDSHAKE_DONE = 0x1e;
    RESET_STREAM_AT = 0x24;
    DATAGRAM = 0x30;
    DATAGRAM_WITH_LENGTH = 0x31;
    PATH_ACK = 0x3e;
    PATH_ACK_ECN = 0x3f;
    PATH_ABANDON = 0x3e75;
    PATH_STATUS_BACKUP = 0x3e76;
    PATH_STATUS_AVAILABLE = 0x3e77;
    PATH_NEW_CONNECTION_ID = 0x3e78;
    PATH_RETIRE_CONNECTION_ID = 0x3e79;
    MAX_PATH_ID = 0x3e7a;
    PATHS_BLOCKED = 0x3e7b;
    PATH_CIDS_BLOCKED = 0x3e7c;
    REPAIR = 0x0d3e_4d01;
    RECOVERED = 0x0d3e_4d02;
    COMBINATION = 0x0d3e_4d03;
}
