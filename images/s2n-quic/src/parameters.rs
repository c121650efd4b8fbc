//! Transport parameters (RFC 9000 §18) as members of a qlog event.

use std::collections::BTreeMap;
use std::fmt::Write;

use s2n_quic::provider::event::events::TransportParameters;

const ORIGINAL_DESTINATION: u64 = 0x00;
const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
const RETRY_SOURCE: u64 = 0x10;
const INITIAL_SOURCE: u64 = 0x0f;

/// Those with a number: identifier, name in qlog, and the value in force where it is left out.
const NUMBERS: [(u64, &str, u64); 11] = [
    (0x01, "max_idle_timeout", 0),
    (0x03, "max_udp_payload_size", 65_527),
    (0x04, "initial_max_data", 0),
    (0x05, "initial_max_stream_data_bidi_local", 0),
    (0x06, "initial_max_stream_data_bidi_remote", 0),
    (0x07, "initial_max_stream_data_uni", 0),
    (0x08, "initial_max_streams_bidi", 0),
    (0x09, "initial_max_streams_uni", 0),
    (0x0a, "ack_delay_exponent", 3),
    (0x0b, "max_ack_delay", 25),
    (0x0e, "active_connection_id_limit", 2),
];

/// What this side sent, by identifier.
pub struct Own(BTreeMap<u64, Vec<u8>>);

impl Own {
    /// From the wire format; what does not follow it is left out.
    pub fn decode(mut encoded: &[u8]) -> Self {
        let mut own = BTreeMap::new();
        while let Some((id, length)) = integer(&mut encoded).zip(integer(&mut encoded)) {
            let Some((value, rest)) = usize::try_from(length).ok().and_then(|length| encoded.split_at_checked(length))
            else {
                break;
            };
            own.insert(id, value.to_vec());
            encoded = rest;
        }
        Self(own)
    }

    /// The connection ID that a client's first Initial packet was sent to; a server repeats it in its parameters.
    pub fn original_destination(&self) -> Option<&[u8]> {
        self.0.get(&ORIGINAL_DESTINATION).map(Vec::as_slice)
    }

    pub fn members(&self) -> String {
        let mut members = String::from(r#""owner":"local""#);
        let ids = [
            (ORIGINAL_DESTINATION, "original_destination_connection_id"),
            (INITIAL_SOURCE, "initial_source_connection_id"),
            (RETRY_SOURCE, "retry_source_connection_id"),
        ];
        for (id, name) in ids {
            if let Some(value) = self.0.get(&id) {
                add_bytes(&mut members, name, value);
            }
        }
        let migration = !self.0.contains_key(&DISABLE_ACTIVE_MIGRATION);
        add(&mut members, "disable_active_migration", !migration);
        for (id, name, default) in NUMBERS {
            let sent = self.0.get(&id).and_then(|value| integer(&mut value.as_slice()));
            add(&mut members, name, sent.unwrap_or(default));
        }
        members
    }
}

/// What the peer sent. s2n-quic does not tell its `initial_max_data`.
pub fn received(parameters: &TransportParameters) -> String {
    let mut members = String::from(r#""owner":"remote""#);
    let ids = [
        ("original_destination_connection_id", &parameters.original_destination_connection_id),
        ("initial_source_connection_id", &parameters.initial_source_connection_id),
        ("retry_source_connection_id", &parameters.retry_source_connection_id),
    ];
    for (name, id) in ids {
        if let Some(id) = id {
            add_bytes(&mut members, name, id.bytes);
        }
    }
    add(&mut members, "disable_active_migration", !parameters.migration_support);
    let numbers = [
        ("max_idle_timeout", parameters.max_idle_timeout.as_millis() as u64),
        ("max_udp_payload_size", parameters.max_udp_payload_size),
        ("initial_max_stream_data_bidi_local", parameters.initial_max_stream_data_bidi_local),
        ("initial_max_stream_data_bidi_remote", parameters.initial_max_stream_data_bidi_remote),
        ("initial_max_stream_data_uni", parameters.initial_max_stream_data_uni),
        ("initial_max_streams_bidi", parameters.initial_max_streams_bidi),
        ("initial_max_streams_uni", parameters.initial_max_streams_uni),
        ("ack_delay_exponent", parameters.ack_delay_exponent.into()),
        ("max_ack_delay", parameters.max_ack_delay.as_millis() as u64),
        ("active_connection_id_limit", parameters.active_connection_id_limit),
    ];
    for (name, value) in numbers {
        add(&mut members, name, value);
    }
    members
}

// In the following, writing to a string cannot fail.

fn add(members: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(members, r#","{name}":{value}"#);
}

fn add_bytes(members: &mut String, name: &str, value: &[u8]) {
    let _ = write!(members, r#","{name}":"{}""#, hexadecimal(value));
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Takes a variable-length integer (RFC 9000 §16).
fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (taken, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    Some(taken[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_a_server_sends() {
        let own = Own::decode(&[0x00, 2, 0xab, 0xcd, 0x04, 4, 0x80, 0x39, 0x38, 0x70, 0x0b, 1, 40, 0x0c, 0]);
        assert_eq!(own.original_destination(), Some(&[0xab, 0xcd][..]));
        let members = own.members();
        for member in [r#""initial_max_data":3750000"#, r#""max_ack_delay":40"#, r#""ack_delay_exponent":3"#] {
            assert!(members.contains(member), "{members}");
        }
        assert!(members.contains(r#""disable_active_migration":true"#), "{members}");
    }

    #[test]
    fn stops_where_the_bytes_end() {
        assert!(Own::decode(&[0x04, 4, 0x80]).0.is_empty());
        assert!(Own::decode(&[0x40]).0.is_empty());
    }
}
