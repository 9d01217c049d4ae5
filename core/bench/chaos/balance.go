package chaos

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rest"
)

// balanceLimit is how long memory may stay in use after its objects were removed: what an unfinished put of a client that
// is gone may still write, and what readers of an earlier master may still read, is held for less.
const balanceLimit = time.Minute

// balance removes all keys, and returns how many bytes no object has and no object can get after balanceLimit.
func (r *round) balance(ctx context.Context) (stuck uint64, err error) {
	var left string
	for by := time.Now().Add(balanceLimit); ; {
		if _, err = r.pages.client.RemoveAll(ctx, true); err == nil {
			if stuck, left, err = r.pool.taken(ctx); err == nil && stuck == 0 {
				return 0, nil
			}
		}
		if !time.Now().Before(by) || !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	if err == nil {
		r.pages.detail("memory is in use without an object: %s", left)
	}
	return stuck, err
}

// taken returns how many bytes of the segments are not free, and of which.
func (p *pool) taken(ctx context.Context) (n uint64, of string, err error) {
	leader, _, err := p.leader(ctx)
	if err != nil {
		return 0, "", err
	}
	client, err := rest.NewClient(net.JoinHostPort(p.host, strconv.Itoa(p.ports[2*leader+1])), callLimit)
	if err != nil {
		return 0, "", err
	}
	defer client.Close()
	segments, err := client.Segments(ctx)
	if err != nil {
		return 0, "", err
	}
	for _, s := range segments {
		if s.AbsentSince != nil {
			return 0, "", fmt.Errorf("segment %s of %s is absent", s.ID, s.Name)
		}
		n += s.Used
		of += fmt.Sprintf("%s of %s: used %d bytes, of them unfinished %d and held %d; ", s.ID, s.Name, s.Used, s.Writing, s.Held)
	}
	return n, of, nil
}
