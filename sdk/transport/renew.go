package transport

// Renewing is implemented by transports whose keys can change while they run, because what
// made them was started again: a transport in a process of its own. After a value of
// Changed, Endpoint and the keys of all regions may differ from before; peers that still
// hold the old ones get ClassTransientPeer.
type Renewing interface {
	Changing
	// Key returns the key of a registered region as peers need it now. InvalidParams for a
	// region that is not registered; an error of class local-device or transient-peer while
	// there is nothing that could serve it.
	Key(id RegionID) (Key, error)
}
