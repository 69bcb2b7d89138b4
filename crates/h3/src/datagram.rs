//! Datagrams of HTTP/3 (RFC 9297).

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::quic::ConnectionErrorIncoming;
use h3_datagram::{
    datagram::EncodedDatagram,
    quic_traits::{DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming},
};
use mendpath::SendDatagramError;

use crate::{Connection, error};

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = SendDatagrams;
    type RecvDatagramHandler = RecvDatagrams;

    fn send_datagram_handler(&self) -> SendDatagrams {
        SendDatagrams(self.get_ref().clone())
    }

    fn recv_datagram_handler(&self) -> RecvDatagrams {
        RecvDatagrams(self.get_ref().clone())
    }
}

/// Sends datagrams. One for which the send buffer has no room is dropped, as any may be on its way.
#[derive(Clone, Debug)]
pub struct SendDatagrams(mendpath::Connection);

impl<B: Buf> SendDatagram<B> for SendDatagrams {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut data = data.into();
        match self.0.send_datagram(data.copy_to_bytes(data.remaining())) {
            Ok(()) => Ok(()),
            Err(SendDatagramError::Blocked) => {
                tracing::trace!("no room for a datagram: dropped");
                Ok(())
            }
            Err(SendDatagramError::TooLarge { .. }) => Err(SendDatagramErrorIncoming::TooLarge),
            Err(SendDatagramError::ConnectionLost(lost)) => {
                Err(SendDatagramErrorIncoming::ConnectionError(error::connection(lost)))
            }
            // Those to come included.
            Err(_) => Err(SendDatagramErrorIncoming::NotAvailable),
        }
    }
}

/// Receives datagrams. Of several, each datagram comes to one.
#[derive(Debug)]
pub struct RecvDatagrams(mendpath::Connection);

impl RecvDatagram for RecvDatagrams {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Buffer, ConnectionErrorIncoming>> {
        let data = ready!(self.0.poll_read_datagram(cx)).map_err(error::connection)?;
        Poll::Ready(Ok(data))
    }
}
