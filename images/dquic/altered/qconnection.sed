# qconnection 0.8.2, src/tls.rs. A server looks whether TLS is done only after rustls has had something to send. Once a
# client's Finished has come rustls sends session tickets alone, and none to a client that offers no
# psk_key_exchange_modes (RFC 8446 §4.2.9). quic-go's, ngtcp2's and quinn's clients are such unless they resume. The
# connection then never came to be. Here the server looks once more.
s|state\.session\.poll_read_hs(cx, buf)\.map(Ok),|match state.session.poll_read_hs(cx, buf) { Poll::Pending if state.session.is_finished() \&\& state.info.get().is_none() => Poll::Ready(Ok(None)), polled => polled.map(Ok) },|
