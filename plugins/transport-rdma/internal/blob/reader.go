package blob

import "encoding/binary"

// reader takes fields off a blob. After a field that is not there everything reads as
// zero and bad is set.
type reader struct {
	rest []byte
	bad  bool
}

// take returns the next n bytes, zeros where there are not as many. n is at most 65535.
func (r *reader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad, r.rest = true, nil
		return make([]byte, n)
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) u8() byte     { return r.take(1)[0] }
func (r *reader) u16() uint16  { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32  { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64  { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) text() string { return string(r.take(int(r.u16()))) }
