package embedded

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"
)

// A master whose etcd member does not run yet answers at the port for peers, where etcd lists the members of
// its cluster: with a status of its own, its name, and a number of this start.
const (
	membersPath               = "/members"
	headerWaits, headerNumber = "X-Mooncake-Waits", "X-Mooncake-Start"
	askTimeout                = time.Second
	// maxAnswer bounds a list of members, in bytes.
	maxAnswer = 1 << 20
)

// view is what the port for peers of a machine says.
type view struct {
	answered bool
	// waits is the name of a master whose folder is empty, and nonce the number of its start.
	waits, nonce string
	members      []listed // of a running etcd member, nil otherwise
}

// listed is an etcd member, as another one lists it.
type listed struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
}

// started reports whether the member has been part of the cluster with data of its own.
func (l listed) started() bool { return len(l.ClientURLs) > 0 }

func (l listed) url() string {
	if len(l.PeerURLs) == 0 {
		return ""
	}
	return l.PeerURLs[0]
}

// asker asks ports for peers.
type asker struct{ client *http.Client }

func newAsker(security *tls.Config) *asker {
	return &asker{&http.Client{Timeout: askTimeout, Transport: &http.Transport{TLSClientConfig: security, DisableKeepAlives: true}}}
}

func (a *asker) close() { a.client.CloseIdleConnections() }

// ask asks one. The zero view says that nothing answers.
func (a *asker) ask(ctx context.Context, url string) view {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+membersPath, nil)
	if err != nil {
		return view{}
	}
	r, err := a.client.Do(req)
	if err != nil {
		return view{}
	}
	defer r.Body.Close() //nolint:errcheck // It was read.
	v := view{answered: true, waits: r.Header.Get(headerWaits), nonce: r.Header.Get(headerNumber)}
	if r.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(r.Body, maxAnswer)).Decode(&v.members) != nil {
		v.members = nil
	}
	return v
}

// askAll asks several at once, by name.
func (a *asker) askAll(ctx context.Context, urls map[string]string) map[string]view {
	type answer struct {
		name string
		view view
	}
	answers := make(chan answer, len(urls))
	for name, url := range urls {
		go func() { answers <- answer{name, a.ask(ctx, url)} }()
	}
	all := map[string]view{}
	for range urls {
		one := <-answers
		all[one.name] = one.view
	}
	return all
}

// beacon answers at the port for peers until the etcd member needs it.
type beacon struct {
	nonce  string
	server *http.Server
	done   chan struct{}
}

func newBeacon(ln net.Listener, name string, security *tls.Config) *beacon {
	b := &beacon{nonce: rand.Text(), done: make(chan struct{})}
	b.server = &http.Server{ReadHeaderTimeout: askTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(headerWaits, name)
		w.Header().Set(headerNumber, b.nonce)
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	if security != nil {
		security = security.Clone()
		security.ClientCAs, security.ClientAuth = security.RootCAs, tls.RequireAndVerifyClientCert
		ln = tls.NewListener(ln, security)
	}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(ln) // It returns when it is closed.
	}()
	return b
}

// close frees the port. Repeatable.
func (b *beacon) close() {
	_ = b.server.Close()
	<-b.done
}
