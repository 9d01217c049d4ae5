package objects

import "github.com/mooncake-go/mooncake/core/master/lease"

// Located is an object with a copy on a segment.
type Located struct {
	Key  string
	Size uint64
	// Out says whether it could be moved now: Done, Unfinished, Copying, Leased, Probed.
	Out Outcome
}

// On appends the objects of one step of a walk that have a copy on segments of that name.
func (t *Table) On(at Cursor, segment string, now lease.Instant, dst []Located) ([]Located, Cursor) {
	next := t.walk(at, func(_ int, _ *shard, o *object) {
		if !o.on(segment) || !o.alive() {
			return
		}
		l := Located{Key: o.key, Size: o.size()}
		switch {
		case !o.has(complete):
			l.Out = Unfinished
		case o.copying():
			l.Out = Copying
		case o.leaseEnd() > now:
			l.Out = Leased
		case o.probeEnd() > now:
			l.Out = Probed
		}
		dst = append(dst, l)
	})
	return dst, next
}

func (o *object) on(segment string) bool {
	copies := o.several()
	if copies == nil {
		return o.seg.Name == segment
	}
	for i := range copies {
		if copies[i].on(segment) {
			return true
		}
	}
	return false
}
