package framed

import "net"

// Protocol is what distinguishes connections that begin in one way: their headers, their limits, and
// what their calls do. Safe for concurrent use.
type Protocol interface {
	// Limits returns the limits of the next connection.
	Limits() Limits
	// Shape returns what the frames of every connection have in common.
	Shape() Shape
	// Parse reads the header of a frame of at most so many bytes. Its error ends the connection.
	Parse(header []byte, most int) (Frame, error)
	// Open returns the client at the other end of a new connection.
	Open(remote net.Addr) Client
}

// Shape is what the frames of a protocol have in common.
type Shape struct {
	// Header is how many bytes a header has.
	Header int
	// Buffer is how many bytes of a connection are read at once.
	Buffer int
	// Unique says that calls in flight on a connection have different numbers. A client that
	// breaks this rule loses its connection.
	Unique bool
}

// Client is the client at the other end of a connection, as its protocol sees it. Answer and
// Bye are called from several goroutines, the other methods from one at a time.
type Client interface {
	// Greet exchanges what precedes the frames. It reports whether the client has shown by this that
	// it is one; otherwise its first request does. An error ends the connection.
	Greet(over Wire) (known bool, err error)
	// Asked is called once the header of a request is there.
	Asked()
	// Answer works on a call and makes the frame of its answer, Call.Out.
	Answer(c *Call)
	// Refuse makes the frame of the answer to a call for whose request there is no memory.
	Refuse(c *Call, why error)
	// Bye returns a frame that asks the client to close the connection and to lose no call by it, nil
	// where the protocol has none: the server closes the connection then.
	Bye() []byte
	// Last returns a frame to end the connection with, given the error that ends it, or nil.
	Last(err error) []byte
	// Left is called at the end. byClient says that the client has closed the connection, and awaited no answer.
	Left(byClient bool)
}

// Wire is a connection before its first frame.
type Wire interface {
	// Read waits until n bytes are there, for Limits.Stall at most, and takes them. They are valid until
	// the next read.
	Read(n int) ([]byte, error)
	// Send sends bytes without waiting.
	Send(b []byte) error
}
