package introspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/mooncake-go/mooncake/core/internal/profiling"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 16 << 20

// Client asks one process. Every call is bounded by its context. Safe for concurrent use.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client of the socket at path. It does not connect.
func NewClient(path string) *Client {
	c := &Client{path: path}
	c.http = &http.Client{
		Transport:     &http.Transport{DialContext: c.dial, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// dial connects, and makes sure that whoever listens is this user or root, or that this
// is root: what is answered is shown to people.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	uid, err := peerUser(conn)
	if me := os.Geteuid(); err == nil && uid != 0 && uid != me && me != 0 {
		err = fmt.Errorf("it is served by user %d, which is neither root nor this user", uid)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Process returns who serves the socket.
func (c *Client) Process(ctx context.Context) (Process, error) {
	var p Process
	err := c.call(ctx, http.MethodGet, "/v1/process", &p)
	p.Socket = c.path
	return p, err
}

// Plugins returns what the process has in use.
func (c *Client) Plugins(ctx context.Context) (Plugins, error) {
	var p Plugins
	err := c.call(ctx, http.MethodGet, "/v1/plugins", &p)
	p.Process.Socket = c.path
	return p, err
}

// Reload has the process replace the process of a plugin. FileNotFound where it does not
// use the plugin, NotSupported where it is linked in.
func (c *Client) Reload(ctx context.Context, id plugin.ID) (Reloaded, error) {
	var r Reloaded
	if err := id.Validate(); err != nil {
		return r, errs.Wrap(errs.InvalidParams, "", err)
	}
	err := c.call(ctx, http.MethodPost, "/v1/plugins/"+url.PathEscape(id.Kind)+"/"+url.PathEscape(id.Name)+"/reload", &r)
	return r, err
}

// Profile returns a profile of the process, in the format of pprof: "profile" is that of the
// processor over so many seconds, "allocs", "heap", "block", "mutex" and "goroutine" are what
// has been noted so far, or with seconds above 0 what is within them. NotSupported where the
// process serves none.
func (c *Client) Profile(ctx context.Context, name string, seconds int) ([]byte, error) {
	path := profiling.Root + url.PathEscape(name)
	if seconds > 0 {
		path += "?seconds=" + strconv.Itoa(seconds)
	}
	status, raw, err := c.ask(ctx, http.MethodGet, path)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, errs.WithHint(errs.New(errs.NotSupported, "admin socket "+c.path, "the process does not serve a profile %.40q", name),
			"start it with --debug_pprof socket")
	case status != http.StatusOK:
		return nil, errs.New(errs.RPCFail, "admin socket "+c.path, "profile %.40q: status %d: %.200q", name, status, raw)
	}
	return raw, nil
}

// call sends a request and decodes the answer into out.
func (c *Client) call(ctx context.Context, method, path string, out any) error {
	op := "admin socket " + c.path
	status, raw, err := c.ask(ctx, method, path)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return refused(op, status, raw)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return errs.New(errs.DeserializeFail, op, "%s: the answer makes no sense: %w", path, err)
	}
	return nil
}

// ask sends a request and returns the answer as it is.
func (c *Client) ask(ctx context.Context, method, path string) (status int, raw []byte, err error) {
	op := "admin socket " + c.path
	req, err := http.NewRequestWithContext(ctx, method, "http://mooncake"+path, nil)
	if err != nil {
		return 0, nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, c.unreachable(err)
	case len(raw) > maxAnswer:
		return 0, nil, errs.New(errs.DeserializeFail, op, "the answer is longer than %d bytes", maxAnswer)
	}
	return resp.StatusCode, raw, nil
}

func (c *Client) unreachable(err error) error {
	op := "admin socket " + c.path
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // Without method and URL, which say nothing here.
	}
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "the process that made it has ended")
	case errors.Is(err, fs.ErrNotExist):
		return errs.WithHint(errs.Wrap(errs.FileNotFound, op, err), "is the process running, and is its admin.socket on?")
	case errors.Is(err, fs.ErrPermission):
		return errs.WithHint(errs.Wrap(errs.RPCFail, op, err), "it answers the user that its process runs as, and root")
	case errors.As(err, &timeout) && timeout.Timeout():
		return errs.New(errs.RPCTimeout, op, "no answer in time; the process may be stopped or very busy")
	default:
		return errs.Wrap(errs.RPCFail, op, err)
	}
}

func refused(op string, status int, raw []byte) error {
	var f failure
	if err := json.Unmarshal(raw, &f); err != nil || f.Error.Code == 0 || f.Error.Message == "" {
		return errs.WithHint(errs.New(errs.RPCFail, op, "status %d: %.200q", status, raw), "is that the admin socket of a mooncake process?")
	}
	return &remoteError{code: errs.Code(f.Error.Code), text: strings.Map(shown, f.Error.Message)}
}

// shown replaces what a terminal would obey: root asks processes of others, and an error is
// printed as it is.
func shown(r rune) rune {
	if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
		return unicode.ReplacementChar
	}
	return r
}

// remoteError is an error of the process, in its own words.
type remoteError struct {
	code errs.Code
	text string
}

// Error implements error.
func (e *remoteError) Error() string { return e.text }

// Unwrap lets errs find the code.
func (e *remoteError) Unwrap() error { return e.code.Err() }
