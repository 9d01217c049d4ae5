package convert

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// place is what the copies on one segment have in common.
type place struct {
	segment                  model.SegmentID
	name, endpoint, protocol string
}

// replicaWriter fills the columns of a Replicas message.
type replicaWriter struct {
	out    *masterv1.Replicas
	places map[place]uint32 // nil while there is only one
	// last skips the map while replicas of one segment follow each other.
	last      place
	lastIndex uint32
}

// newReplicaWriter makes room for items items with rows rows together. Columns of one type
// share an allocation.
func newReplicaWriter(items, rows int) replicaWriter {
	long, short := columns[uint64]{make([]uint64, 3*rows)}, columns[uint32]{make([]uint32, items+rows)}
	return replicaWriter{out: &masterv1.Replicas{
		Counts:    short.cut(items)[:0],
		Ids:       long.cut(rows)[:0],
		Place:     short.cut(rows)[:0],
		Addresses: long.cut(rows)[:0],
		Sizes:     long.cut(rows)[:0],
		Statuses:  make([]int32, 0, rows),
	}}
}

// columns is what is left of the memory of several columns.
type columns[T any] struct{ rest []T }

// cut takes a column of n entries off.
func (c *columns[T]) cut(n int) []T {
	column := c.rest[:n:n]
	c.rest = c.rest[n:]
	return column
}

// RowsOf returns how many rows the copies of one item take.
func RowsOf(list []model.Replica) int {
	n := len(list)
	for i := range list {
		n += len(list[i].More)
	}
	return n
}

// add appends one item. Its replicas have different IDs, as the master gives them.
func (w *replicaWriter) add(list []model.Replica) {
	before := len(w.out.Ids)
	for i := range list {
		r := &list[i]
		w.row(r, &r.Part)
		for j := range r.More {
			w.row(r, &r.More[j])
		}
	}
	w.out.Counts = append(w.out.Counts, uint32(len(w.out.Ids)-before))
}

func (w *replicaWriter) row(r *model.Replica, p *model.Part) {
	w.out.Ids = append(w.out.Ids, r.ID)
	w.out.Place = append(w.out.Place, w.placeOf(p))
	w.out.Addresses = append(w.out.Addresses, p.Address)
	w.out.Sizes = append(w.out.Sizes, p.Size)
	w.out.Statuses = append(w.out.Statuses, int32(r.Status))
	w.out.Grants = appendGrant(w.out.Grants, len(w.out.Ids), p.Permit)
}

// appendGrant appends the grant of a row to a column, of which there is nothing before the first grant. rows are those up to that one.
func appendGrant(b []byte, rows int, p *transport.Permit) []byte {
	g := p.Grant()
	switch {
	case g != nil && b == nil:
		b = make([]byte, (rows-1)*transport.GrantSize, 2*rows*transport.GrantSize)
	case g == nil && b == nil:
		return nil
	case g == nil:
		g = new(transport.Grant)
	}
	return append(b, g[:]...)
}

// permits reads a column of grants. A nil one holds none.
type permits []struct {
	transport.Permit
	grant transport.Grant
}

// readPermits reads the column of rows rows.
func readPermits(b []byte, rows int) (permits, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case len(b) != rows*transport.GrantSize:
		return nil, Malformed("grants of %d bytes for %d rows", len(b), rows)
	}
	out := make(permits, rows)
	for i := range out {
		p := &out[i]
		copy(p.grant[:], b[i*transport.GrantSize:])
		if p.grant != (transport.Grant{}) {
			p.Renew(&p.grant)
		}
	}
	return out, nil
}

// of returns the permit of a row, nil for none.
func (p permits) of(row int) *transport.Permit {
	if p == nil || p[row].Grant() == nil {
		return nil
	}
	return &p[row].Permit
}

func (w *replicaWriter) placeOf(r *model.Part) uint32 {
	p := place{segment: r.SegmentID, name: r.Segment, endpoint: r.Endpoint, protocol: r.Protocol}
	if p == w.last && len(w.out.Places) > 0 {
		return w.lastIndex
	}
	if w.places == nil && len(w.out.Places) > 0 {
		w.places = map[place]uint32{w.last: w.lastIndex}
	}
	i, ok := w.places[p]
	if !ok {
		i = uint32(len(w.out.Places))
		if i > 0 {
			w.places[p] = i
		}
		w.out.Places = append(w.out.Places, &masterv1.Place{
			Segment: ToUUID(p.segment), Name: Text(p.name), Endpoint: Text(p.endpoint), Protocol: Text(p.protocol),
		})
	}
	w.last, w.lastIndex = p, i
	return i
}
