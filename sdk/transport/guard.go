package transport

// Guard decides which writes of peers into a region may begin, and knows those in progress. The owner of the memory
// makes it, and gives it with Region.Guard. Both methods are called by any goroutine; they neither block nor call
// the transport back, except that the guard may call Cut, also of another Writer than by, during either of them.
type Guard interface {
	// BeginWrite asks whether a peer may write all of [offset, offset+size) of the region now; size is not 0, and the
	// range is within the region. 0 refuses: the write is Failed for the peer, with ClassPermanent, and changes no
	// byte. Otherwise EndWrite is called with the result once nothing touches the memory for the write any more. A
	// transport that divides a Write asks for each part.
	BeginWrite(offset, size uint64, by Writer) WriteID
	// EndWrite ends a write.
	EndWrite(id WriteID)
}

// WriteID names a write in progress to the Guard that let it begin. 0 is none.
type WriteID uint64

// Writer works at a write for a peer.
type Writer interface {
	// Cut ends the write soon, so that EndWrite follows, though the bytes that were written stay. It is called by any
	// goroutine, perhaps more than once, and neither blocks nor calls back. What else the Writer works at for the peer
	// may end with it.
	Cut()
}
