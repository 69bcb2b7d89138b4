//! Queries through UDP ASSOCIATE.

use std::{sync::Arc, time::Duration as StdDuration};

use tokio::{
    net::UdpSocket,
    time::{Instant, timeout},
};

use crate::soak::{
    ANY, Outcome,
    pair::Pair,
    print, print_times,
    program::{socks5, socks5_address},
};

/// Queries as a stub resolver makes them: again after a second.
pub async fn dns(pair: &Arc<Pair>) -> Outcome<()> {
    const QUERIES: u16 = 100;
    let responder = UdpSocket::bind(ANY).await?;
    let resolver = responder.local_addr()?;
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((n, from)) = responder.recv_from(&mut query).await {
            let _ = responder.send_to(&dns_answer(&query[..n]), from).await;
        }
    });
    let (control, relay) = socks5(pair.socks5, 3, ([0, 0, 0, 0], 0).into()).await?;
    let program = UdpSocket::bind(ANY).await?;
    let header = [&[0, 0, 0, 1][..], &socks5_address(resolver)].concat();
    let (mut times, mut sent) = (Vec::new(), 0);
    for id in 0..QUERIES {
        let query = dns_query(id);
        let expected = [&header[..], &dns_answer(&query)].concat();
        let began = Instant::now();
        let mut answered = false;
        for _ in 0..5 {
            sent += 1;
            program.send_to(&[&header[..], &query].concat(), relay).await?;
            if timeout(StdDuration::from_secs(1), hear(&program, &expected)).await.is_ok() {
                answered = true;
                break;
            }
        }
        if !answered {
            return Err(format!("query {id} got no answer").into());
        }
        times.push(began.elapsed());
    }
    drop(control);
    print(format_args!("{QUERIES} queries answered, {sent} sent"));
    print_times("queries over UDP ASSOCIATE", times);
    Ok(())
}

/// Waits for this very datagram; a late answer to an earlier query is no news.
async fn hear(socket: &UdpSocket, expected: &[u8]) {
    let mut heard = [0; 1_500];
    while let Ok(n) = socket.recv(&mut heard).await {
        if heard[..n] == *expected {
            return;
        }
    }
}

/// A query for the A record of example.org (RFC 1035 section 4.1).
fn dns_query(id: u16) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], b"\x07example\x03org\0", &[0, 1, 0, 1]].concat()
}

/// The query with one answer: 192.0.2.1, for a minute.
fn dns_answer(query: &[u8]) -> Vec<u8> {
    let mut answer = query.to_vec();
    if answer.len() >= 12 {
        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    answer
}
