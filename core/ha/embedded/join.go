package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// beginning is how an etcd member starts.
type beginning struct {
	// state and cluster are those of etcd's flags; what says it in the log.
	state, cluster, what string
}

// act is what a master with an empty folder does.
type act int

const (
	wait    act = iota // ask again
	fresh              // begin a cluster, with the others
	adopt              // start as the member that was added for this machine
	replace            // put a new member in the place of the one whose data is lost
	refuse
)

// decision is an act and its reason.
type decision struct {
	act act
	why string
	// members are those of the cluster that is there; old is this master's among them, nil for none.
	members []listed
	old     *listed
}

// decide says what a master does whose folder is empty. urls are the peer URLs of all masters by name, views
// what the others say.
func decide(self string, urls map[string]string, views map[string]view) decision {
	var silent []string
	var lists [][]listed
	for name, v := range views {
		switch {
		case len(v.members) > 0:
			lists = append(lists, v.members)
		case v.waits == "":
			silent = append(silent, name)
		case v.waits != name:
			return decision{act: refuse, why: fmt.Sprintf("the master at %s calls itself %s and is %s here: ha_members has to be the same on all machines, and each --ha_member another one", urls[name], v.waits, name)}
		}
	}
	slices.Sort(silent)
	switch {
	case len(lists) > 0:
		return decideIn(self, urls, lists)
	case len(silent) > 0:
		return decision{act: wait, why: "the masters " + strings.Join(silent, ", ") + " to start; the first start of a cluster needs all of them"}
	}
	return decision{act: fresh}
}

// decideIn is decide where there is a cluster. One list may be older than another.
func decideIn(self string, urls map[string]string, lists [][]listed) decision {
	d := decision{act: fresh}
	for _, members := range lists {
		i := slices.IndexFunc(members, func(m listed) bool { return m.Name == self || m.Name == "" && m.url() == urls[self] })
		switch {
		case i < 0 && len(members) >= len(urls):
			return decision{act: refuse, why: fmt.Sprintf("the cluster has %d etcd members already, %s, and none is called %s: a master that takes the place of another one has its name", len(members), names(members), self)}
		case i < 0:
			return decision{act: replace, members: members}
		case members[i].started(), members[i].Name == self && members[i].url() != urls[self]:
			return decision{act: replace, members: members, old: &members[i]}
		case members[i].Name == "":
			d = decision{act: adopt, members: members}
		}
	}
	return d
}

func names(members []listed) string {
	var all []string
	for _, m := range members {
		all = append(all, m.Name+"="+m.url())
	}
	return strings.Join(all, ", ")
}

// beginning waits until it is clear how the member starts. An error is final.
func (s *Server) beginning(ctx context.Context) (beginning, error) {
	for ctx.Err() == nil {
		empty, err := s.empty()
		if err != nil {
			return beginning{}, errs.WithHint(errs.Wrap(errs.InvalidParams, "folder of the etcd member", err), "see --ha_data_dir")
		}
		if !empty { // etcd ignores the rest, but wants it.
			return beginning{"existing", s.configured(), "with its data"}, nil
		}
		d := decide(s.Self.Name, s.peerURLs(), s.peers.askAll(ctx, s.otherURLs()))
		switch d.act {
		case fresh:
			return beginning{"new", s.configured(), "a new cluster"}, nil
		case adopt:
			return beginning{"existing", s.cluster(d.members), "as a new member of the cluster"}, nil
		case refuse:
			return beginning{}, errs.New(errs.InvalidParams, "etcd member "+s.Self.Name, "%s", d.why)
		case replace:
			if err := s.replace(ctx, d); err != nil {
				return beginning{}, err
			}
		case wait:
			s.waits(d.why)
		}
		pause(ctx, askPause)
	}
	return beginning{}, ctx.Err()
}

func (s *Server) peerURLs() map[string]string {
	urls := map[string]string{}
	for _, m := range s.Members {
		urls[m.Name] = s.peerURL(m)
	}
	return urls
}

func (s *Server) otherURLs() map[string]string {
	urls := s.peerURLs()
	delete(urls, s.Self.Name)
	return urls
}

// configured is the cluster of ha_members, as etcd's flag wants it.
func (s *Server) configured() string {
	var all []string
	for _, m := range s.Members {
		all = append(all, m.Name+"="+s.peerURL(m))
	}
	return strings.Join(all, ",")
}

// cluster is a cluster that is there, of which this master's member has no name yet.
func (s *Server) cluster(members []listed) string {
	var all []string
	for _, m := range members {
		name := m.Name
		if m.url() == s.peerURL(s.Self) {
			name = s.Self.Name
		}
		for _, url := range m.PeerURLs {
			all = append(all, name+"="+url)
		}
	}
	return strings.Join(all, ",")
}

// Self returns the member that this master is: the named one, or the one whose host is rpc_address.
func Self(m config.Master, members []config.HAMember) (config.HAMember, error) {
	var found []config.HAMember
	for _, one := range members {
		if one.Name == m.HAMember || m.HAMember == "" && one.Host == m.RPCAddress {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		return config.HAMember{}, errs.WithHint(errs.New(errs.InvalidParams, "master.ha_member", "%d entries of ha_members have the rpc_address %s as their host", len(found), m.RPCAddress),
			"say which one this master is: --ha_member NAME, or --rpc_address with the host of one")
	}
	return found[0], nil
}
