// Package line is how upstream's nodes keep values in etcd and redis: as one line of text,
// with its end.
package line

import "bytes"

// Append returns the value as it is kept. It keeps no reference to the argument.
func Append(value []byte) []byte {
	return append(append(make([]byte, 0, len(value)+1), value...), '\n')
}

// Cut returns the value of what is kept; also other clients, which write no end, are
// understood.
func Cut(kept []byte) []byte { return bytes.TrimSuffix(kept, []byte("\n")) }
