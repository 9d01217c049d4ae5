package statetest

import (
	"encoding/binary"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Pool is the model for History.Check of what the clients of a pool may see of one key. Where the register of a master has
// calls and error codes, it has values: each write has another one, which Op.Sum names. Its state is the set of the values
// that a read may return.
//
// A read may also miss at any time, because a pool is a cache, so that no history needs the reads that do. For the same
// reason a put may leave the key as it is, and one whose value no read returned says nothing.
//
// A write with Op.Weak does not take the values before it out of the set: they may come back. So it is with one that the
// master made while it did not know all segments (docs/adr/0026), with one that a master made beside another one (0030),
// with one for which a master waited in vain for the node of a value that the key had before, and with one that failed
// and whose effect is not known.
func Pool() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []any { return []any{values("")} },
		Step: func(at, input, _ any) []any {
			s, op := at.(values), input.(Op)
			switch {
			case op.Kind == "read":
				if s.has(op.Sum) {
					return []any{s}
				}
				return nil
			case op.Kind == "remove" && op.Weak:
				return []any{s}
			case op.Kind == "remove":
				return []any{values("")}
			case op.Weak:
				return []any{s.with(op.Sum)}
			case op.Kind == "put":
				return []any{s, values("").with(op.Sum)}
			}
			return []any{values("").with(op.Sum)}
		},
	}
	return m.ToModel()
}

const valueSize = 8

// values is a set of values, sorted, of valueSize bytes each, so that two of them can be compared.
type values string

func (v values) has(x uint64) bool {
	for i := 0; i < len(v); i += valueSize {
		if binary.BigEndian.Uint64([]byte(v[i:i+valueSize])) == x {
			return true
		}
	}
	return false
}

func (v values) with(x uint64) values {
	if v.has(x) {
		return v
	}
	var all []uint64
	for i := 0; i < len(v); i += valueSize {
		all = append(all, binary.BigEndian.Uint64([]byte(v[i:i+valueSize])))
	}
	all = append(all, x)
	slices.Sort(all)
	var b []byte
	for _, y := range all {
		b = binary.BigEndian.AppendUint64(b, y)
	}
	return values(b)
}
