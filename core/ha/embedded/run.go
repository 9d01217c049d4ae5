package embedded

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Start takes the folder and the ports and begins to run the member. The member need not serve when Start
// returns: that takes a majority.
func (s *Server) Start(ctx context.Context) error {
	if err := s.takeFolder(); err != nil {
		return err
	}
	beacon, err := s.takePorts(ctx)
	if err != nil {
		s.releaseFolder()
		return err
	}
	s.become(Waiting)
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(s.done)
		if err := s.run(ctx, beacon); err != nil && ctx.Err() == nil {
			s.Fail(err)
		}
	}()
	return nil
}

// Stop ends the member: in order, and by force after a bound. Repeatable.
func (s *Server) Stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.done // Each of its steps is bounded.
	}
	s.become(Stopped)
	s.conn.Close()
	s.all.Close()
	s.peers.close()
	s.releaseFolder()
}

// takePorts opens the ports for a moment, and keeps that for peers until the member runs. It refuses a name
// that another master uses.
func (s *Server) takePorts(ctx context.Context) (*beacon, error) {
	var err error
	if s.bind, err = resolve(ctx, s.Bind); err != nil {
		return nil, err
	}
	client, err := listen(ctx, s.bind, s.Self.Client)
	if err != nil {
		return nil, err
	}
	if err := client.Close(); err != nil {
		return nil, err
	}
	peer, err := listen(ctx, s.bind, s.Self.Peer)
	if err != nil {
		return nil, err
	}
	b := newBeacon(peer, s.Self.Name, s.TLS)
	if v := s.peers.ask(ctx, s.peerURL(s.Self)); v.answered && v.nonce != b.nonce {
		b.close()
		return nil, errNamesake(s, s.peerURL(s.Self))
	}
	return b, nil
}

// run starts the member and starts it again when it has ended. An error is final.
func (s *Server) run(ctx context.Context, b *beacon) error {
	defer func() { b.close() }()
	for failed := 0; ctx.Err() == nil; {
		how, err := s.beginning(ctx)
		if err != nil {
			return err
		}
		b.close() // Its port is the member's now.
		began := time.Now()
		gone := false
		gone, err = s.runOnce(ctx, how)
		switch {
		case ctx.Err() != nil:
			return nil
		case gone:
			return errs.WithHint(errs.Wrap(errs.InvalidParams, "etcd member "+s.Self.Name, err), "another machine took its place: stop this master. To be a member again it needs an empty %s", s.Folder)
		}
		s.become(Restarting)
		if time.Since(began) >= steady {
			failed = 0
		}
		wait := min(leastBackOff<<min(failed, 10), mostBackOff)
		failed++
		s.Log.Error("the etcd member of this master has ended, it is started again", "error", err, "in", wait)
		pause(ctx, wait)
	}
	return nil
}

// runOnce runs the process to its end, and settles its membership meanwhile. removed says that it is no member any
// more.
func (s *Server) runOnce(ctx context.Context, how beginning) (removed bool, err error) {
	p, err := start(s.Program, s.args(how), s.Log)
	if err != nil {
		return false, err
	}
	s.become(Running)
	s.Log.Info("the etcd member of this master runs", "member", s.Self.Name, "clients", s.url(s.bind, s.Self.Client), "folder", s.Folder, "begins", how.what)
	var settling sync.WaitGroup
	running, cancel := context.WithCancel(ctx)
	settling.Go(func() { s.settle(running) })
	select {
	case <-p.done:
	case <-ctx.Done():
		p.stop(stopTimeout)
	}
	cancel()
	settling.Wait()
	return p.removed(), p.err
}

// args are the flags of etcd.
func (s *Server) args(how beginning) []string {
	client, peer := s.url(s.bind, s.Self.Client), s.url(s.bind, s.Self.Peer)
	level := "warn"
	if s.Log.Enabled(context.Background(), slog.LevelDebug) {
		level = "info"
	}
	args := []string{
		"--name", s.Self.Name, "--data-dir", s.data(),
		"--listen-client-urls", client, "--advertise-client-urls", s.url(s.Self.Host, s.Self.Client),
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", s.peerURL(s.Self),
		"--initial-cluster", how.cluster, "--initial-cluster-state", how.state, "--initial-cluster-token", "mooncake-" + s.Cluster,
		"--heartbeat-interval", strconv.FormatInt(heartbeat.Milliseconds(), 10), "--election-timeout", strconv.FormatInt(election.Milliseconds(), 10),
		"--log-outputs", "stderr", "--log-level", level,
	}
	if s.TLS != nil {
		for _, of := range []string{"", "peer-"} {
			args = append(args, "--"+of+"cert-file", s.CertFile, "--"+of+"key-file", s.KeyFile, "--"+of+"trusted-ca-file", s.CAFile, "--"+of+"client-cert-auth")
		}
	}
	return args
}
