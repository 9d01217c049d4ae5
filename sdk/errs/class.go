package errs

// Class says what a caller may do about a failed transfer, without knowing the
// transport it came from.
type Class uint8

const (
	// ClassUnknown means that nothing is known; treat like ClassTransientPath, once.
	ClassUnknown Class = iota
	// ClassTransientPath means that this connection or rail failed; another path to the same peer,
	// or the same one after a pause, may work.
	ClassTransientPath
	// ClassTransientPeer means that the peer is down, restarted or overloaded; use another replica
	// now, and this peer later.
	ClassTransientPeer
	// ClassLocalDevice means that this machine's device or memory failed; use another local device.
	ClassLocalDevice
	// ClassPermanent means that the request is wrong and will fail everywhere; do not retry.
	ClassPermanent
)

var classNames = [...]string{"unknown", "transient-path", "transient-peer", "local-device", "permanent"}

// String returns the name used in logs and metrics labels.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown"
}

// Retryable reports whether the same request may succeed if tried again, on this or
// another path.
func (c Class) Retryable() bool { return c != ClassPermanent }
