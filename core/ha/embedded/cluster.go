package embedded

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// replace removes the member of this master, whose data is lost, and adds a new one, which does not vote
// until it has caught up. Both take a majority of the others; until there is one, replace notes that the
// member waits. An error is final.
func (s *Server) replace(ctx context.Context, d decision) error {
	if old := d.old; old != nil && old.url() != s.peerURL(s.Self) && s.peers.ask(ctx, old.url()).answered {
		return errNamesake(s, old.url())
	}
	err := s.all.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if d.old != nil {
			if _, err := c.MemberRemove(ctx, d.old.ID); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
				return err
			}
			s.Log.Warn("the data of this master's etcd member is lost: a new member takes its place", "member", s.Self.Name, "old", d.old.url(), "new", s.peerURL(s.Self))
		}
		_, err := c.MemberAddAsLearner(ctx, []string{s.peerURL(s.Self)})
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.waits("a majority of the other masters, to replace its etcd member, whose data is lost: " + err.Error())
	}
	return nil // The next list of the others says whether it has happened.
}

// settle brings the cluster's entry of a member that runs up to date: a new member votes, and an address that
// has changed is told. It returns when there is nothing left to do, or ctx ends.
func (s *Server) settle(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, askPause) {
		id, _, err := s.status(ctx)
		if err != nil {
			continue
		}
		if done, err := s.settleOnce(ctx, id); done {
			return
		} else if err != nil {
			s.Log.Debug("the etcd member is not settled yet", "error", err)
		}
	}
}

func (s *Server) settleOnce(ctx context.Context, id uint64) (done bool, err error) {
	err = s.all.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Members, func(m *etcdserverpb.Member) bool { return m.ID == id })
		switch {
		case i < 0:
			done = true // It was removed, and ends soon.
		case r.Members[i].IsLearner:
			if _, err = c.MemberPromote(ctx, id); err == nil {
				s.Log.Info("the new etcd member of this master has caught up and votes", "member", s.Self.Name)
			}
		case !slices.Equal(r.Members[i].PeerURLs, []string{s.peerURL(s.Self)}):
			s.Log.Warn("this master's etcd member has another address", "old", r.Members[i].PeerURLs, "new", s.peerURL(s.Self))
			_, err = c.MemberUpdate(ctx, id, []string{s.peerURL(s.Self)})
		default:
			done = true
		}
		return err
	})
	return done, err
}

// status returns the number of this machine's member and that of etcd's leader, 0 for none.
func (s *Server) status(ctx context.Context) (id, leader uint64, err error) {
	err = s.conn.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Status(ctx, c.Endpoints()[0])
		if err == nil {
			id, leader = r.Header.MemberId, r.Leader
		}
		return err
	})
	return id, leader, err
}

// Yield has another machine lead etcd, if this one does. The master that leads calls it now and then: the loss
// of its machine then leaves etcd in service, which otherwise had to elect a leader first.
func (s *Server) Yield(ctx context.Context) error {
	id, leader, err := s.status(ctx)
	if err != nil || leader != id {
		return err
	}
	return s.conn.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		err = errors.New("there is no other member")
		for _, m := range r.Members {
			if m.ID == id || m.IsLearner || len(m.ClientURLs) == 0 {
				continue
			}
			if _, err = c.MoveLeader(ctx, m.ID); err == nil {
				s.Log.Info("another machine leads etcd from now on, for this one has the master that serves", "member", m.Name)
				return nil
			}
		}
		return err
	})
}
