//! A network of one link between a client and a server, which can be cut, or change its addresses.

use std::net::SocketAddr;

use tokio::{net::UdpSocket, sync::mpsc};

use super::LOOPBACK;

/// Forwards datagrams between one client and a server.
pub(crate) struct Relay {
    /// Where the client sends to.
    pub(crate) address: SocketAddr,
    orders: mpsc::UnboundedSender<Order>,
}

enum Order {
    Cut,
    Rebind,
    Retarget(SocketAddr),
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let near = UdpSocket::bind(LOOPBACK).await.unwrap();
        let far = UdpSocket::bind(LOOPBACK).await.unwrap();
        let address = near.local_addr().unwrap();
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(forward(near, far, server, inbox));
        Self { address, orders }
    }

    /// Nothing passes any more.
    pub(crate) fn cut(&self) {
        self.orders.send(Order::Cut).unwrap();
    }

    /// What comes from the client reaches the server from another port from now on, as behind a NAT that forgot.
    pub(crate) fn rebind(&self) {
        self.orders.send(Order::Rebind).unwrap();
    }

    /// What comes from the client goes to another server from now on.
    pub(crate) fn retarget(&self, server: SocketAddr) {
        self.orders.send(Order::Retarget(server)).unwrap();
    }
}

/// Until the relay is dropped.
async fn forward(
    near: UdpSocket,
    mut far: UdpSocket,
    mut server: SocketAddr,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let (mut there, mut back) = ([0; 65_535], [0; 65_535]);
    let mut client = None;
    let mut cut = false;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Cut) => cut = true,
                Some(Order::Rebind) => far = UdpSocket::bind(LOOPBACK).await.unwrap(),
                Some(Order::Retarget(to)) => server = to,
                None => return,
            },
            Ok((size, from)) = near.recv_from(&mut there), if !cut => {
                client = Some(from);
                let _ = far.send_to(&there[..size], server).await;
            }
            Ok((size, _)) = far.recv_from(&mut back), if !cut => {
                if let Some(client) = client {
                    let _ = near.send_to(&back[..size], client).await;
                }
            }
        }
    }
}
