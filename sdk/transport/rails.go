package transport

// RailID names a rail of one path. 0 is none: the transport chooses.
type RailID uint16

// Rail is one way of a path: a device on this side and one on the peer's.
type Rail struct {
	ID RailID
	// Local and Remote are the names of the devices as the topology of each machine has
	// them: "mlx5_0".
	Local, Remote string
	// Up says whether operations may be submitted for the rail. One that is down comes back
	// by itself when its devices and the peer allow.
	Up bool
	// Speed is the nominal speed of the slower device in bits per second, 0 for unknown.
	Speed uint64
}

// Railed is what the paths of a transport with CapRails implement: the caller may spread
// operations over several devices with Op.Rail. Safe for concurrent use.
type Railed interface {
	// Rails lists every rail, also those that are down. A rail keeps its ID and its devices
	// for the life of the path. The caller owns the slice.
	Rails() []Rail
}

// Changing is implemented by transports whose Endpoint, Segment or rails can change while
// they run: a port went down, an address changed.
type Changing interface {
	// Changed returns a channel of capacity 1 that gets a value after something changed;
	// changes that nobody took yet merge. It is never closed, and is the same on every call.
	Changed() <-chan struct{}
}
