// Package workload takes the certificates of a process from a SPIFFE Workload API, such as that of a SPIRE agent, and
// keeps them in files. The settings ca, cert and key of the section security name these files, so that all processes and
// plugins that read them follow the agent.
package workload

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Options are the settings of Follow.
type Options struct {
	// Socket is where the Workload API is: "unix:///run/spire/agent.sock" or "tcp://127.0.0.1:8000".
	Socket string
	// Folder gets ca.pem, cert.pem and key.pem. It is made where it does not exist, for this user alone.
	Folder string
	// Wait bounds the wait for the first certificate. Default 30 s.
	Wait time.Duration
	// Once returns after the first certificate.
	Once bool
	// Log gets renewals and trouble; nil for none.
	Log *slog.Logger
}

// Files names the files in a folder.
func Files(folder string) security.Files {
	at := func(name string) string { return filepath.Join(folder, name) }
	return security.Files{CA: at("ca.pem"), Cert: at("cert.pem"), Key: at("key.pem"), Of: "security"}
}

// Follow writes the certificate of this process, its key and the authorities of its trust domain to files, and again
// with each change, until ctx ends. ready, where set, is called once with the first. The error is that of a first
// certificate that does not come within Wait, or cannot be written; later trouble is logged, and the files stay.
func Follow(ctx context.Context, o Options, ready func(*x509svid.SVID)) error {
	if o.Wait <= 0 {
		o.Wait = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(o.Socket))
	if err != nil {
		return errs.WithHint(errs.Wrap(errs.InvalidParams, "workload API "+o.Socket, err), "use unix:///PATH of the socket of the agent")
	}
	defer client.Close() //nolint:errcheck // Nothing is in flight.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &follower{o: o, stop: cancel, ready: ready}
	timer := time.AfterFunc(o.Wait, w.late)
	defer timer.Stop()
	err = client.WatchX509Context(ctx, w)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errDone) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errDone ends Follow with Once.
var errDone = errors.New("the files are written")

// follower implements workloadapi.X509ContextWatcher.
type follower struct {
	o     Options
	stop  context.CancelCauseFunc
	ready func(*x509svid.SVID)

	mu   sync.Mutex
	has  bool
	said string // the last trouble
	last error
}

// late ends the wait for the first certificate.
func (w *follower) late() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has {
		return
	}
	err, hint := w.last, "does the agent run, and can this user reach its socket?"
	switch {
	case err == nil:
		err = errors.New("no answer")
	case status.Code(err) == codes.PermissionDenied:
		hint = "the agent knows no identity for this process: register an entry for it, with a SPIFFE ID such as spiffe://TRUST/mooncake/store/NAME"
	}
	w.stop(errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "workload API "+w.o.Socket, "no certificate within %v: %w", w.o.Wait, err), "%s", hint))
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher.
func (w *follower) OnX509ContextUpdate(x *workloadapi.X509Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	svid := choose(x.SVIDs)
	err := w.write(x, svid)
	if err != nil {
		w.trouble(err)
		if !w.has {
			w.stop(err)
		}
		return
	}
	w.said, w.last = "", nil
	w.o.Log.Info("certificates were taken from the workload API", "identity", svid.ID.String(), "ends", svid.Certificates[0].NotAfter, "folder", w.o.Folder)
	if !w.has {
		w.has = true
		if _, err := security.ParseIdentity(svid.ID.String()); err != nil {
			w.o.Log.Warn("the identity has no role of the pool: security.allow of its peers has to give it one", "identity", svid.ID.String(),
				"hint", "for example --security_allow store=uri:"+svid.ID.String())
		}
		if w.ready != nil {
			w.ready(svid)
		}
	}
	if w.o.Once {
		w.stop(errDone)
	}
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher. The library tries again by itself.
func (w *follower) OnX509ContextWatchError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble(err)
}

// trouble logs an error, once for each change. The caller holds mu.
func (w *follower) trouble(err error) {
	if w.last = err; err.Error() != w.said {
		w.said = err.Error()
		w.o.Log.Warn("the workload API gives no certificate; the files stay as they are", "socket", w.o.Socket, "error", err)
	}
}

// choose returns the identity with a role of the pool where there is one, else the first.
func choose(all []*x509svid.SVID) *x509svid.SVID {
	for _, s := range all {
		if strings.HasPrefix(s.ID.Path(), "/mooncake/") {
			return s
		}
	}
	return all[0]
}

// write writes the files: the authorities first, so that a certificate is never there before its authority.
func (w *follower) write(x *workloadapi.X509Context, svid *x509svid.SVID) error {
	const op = "workload API"
	bundle, err := x.Bundles.GetX509BundleForTrustDomain(svid.ID.TrustDomain())
	if err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	cert, key, err := svid.Marshal()
	if err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	if err := os.MkdirAll(w.o.Folder, 0o700); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	f := Files(w.o.Folder)
	for _, part := range []struct {
		name string
		text []byte
	}{{f.CA, encode(bundle.X509Authorities())}, {f.Key, key}, {f.Cert, cert}} {
		if err := replace(part.name, part.text); err != nil {
			return errs.Wrap(errs.InvalidParams, op, err)
		}
	}
	return nil
}

func encode(all []*x509.Certificate) (out []byte) {
	for _, c := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// replace puts a file in the place of another one at once.
func replace(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".next-*") // For this user alone.
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // It is gone where all went well.
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}
