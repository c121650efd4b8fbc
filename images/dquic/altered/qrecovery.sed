# qrecovery 0.6.2, src/streams/raw.rs. What the peer takes on bidirectional streams limits unidirectional ones. ngtcp2's
# client takes none on bidirectional streams of the server's, so that HTTP/3's control stream never began. Here it is
# initial_max_stream_data_uni (RFC 9000 §18.2).
/fn poll_open_uni_stream/,/^    }$/s/get_remote(ParameterId::InitialMaxStreamDataBidiRemote)/get_remote(ParameterId::InitialMaxStreamDataUni)/
