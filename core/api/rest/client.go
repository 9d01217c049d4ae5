package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// maxAnswer bounds an answer in bytes: a page of the longest keys, each byte escaped.
const maxAnswer = 1 << 30

// Client asks the admin port of a master. Errors have the master's code, or RPCFail and
// RPCTimeout. Safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	idle func()
}

// NewClient returns a client of the admin port at address, host:port, which d protects, nil for nothing. It does not
// connect. Each call takes at most timeout.
func NewClient(d *doors.Doors, address string, timeout time.Duration) (*Client, error) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return nil, errs.New(errs.InvalidParams, "admin port", "the address %q is not host:port, for example 127.0.0.1:9003", address)
	}
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: timeout}).DialContext, MaxIdleConnsPerHost: 2, IdleConnTimeout: 10 * time.Second}
	d.Transport(t, config.DoorAdmin, security.RoleMaster)
	return &Client{base: "http://" + address, http: &http.Client{Transport: d.ShowToken(t, config.DoorAdmin), Timeout: timeout}, idle: t.CloseIdleConnections}, nil
}

// Connect is NewClient for a command, with the certificates that the section security names at present. With a token it
// shows no certificate, since the master takes one of both.
func Connect(cfg config.Security, address string, timeout time.Duration) (*Client, error) {
	cfg.Tokens = nil // Nothing connects to a command.
	if cfg.TokenFile != "" {
		cfg.Mode, cfg.Cert, cfg.Key = string(security.ModeTLS), "", ""
	}
	d, err := doors.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return NewClient(d, address, timeout)
}

// OfCell returns a client of the part of the admin port that is about one cell, which the master there leads.
func (c *Client) OfCell(cell int) *Client {
	return &Client{base: fmt.Sprintf("%s/cells/%d", c.base, cell), http: c.http, idle: c.idle}
}

// Close frees idle connections. Repeatable.
func (c *Client) Close() { c.idle() }

// Why returns what the master knows of a key.
func (c *Client) Why(ctx context.Context, tenant, key string) (Story, error) {
	return fetch[Story](ctx, c, "GET", "/api/v1/why", params{"key": key, "tenant_id": tenant}, nil)
}

// Segments lists what is mounted.
func (c *Client) Segments(ctx context.Context) ([]Segment, error) {
	return fetch[[]Segment](ctx, c, "GET", "/api/v1/segments", nil, nil)
}

// Figures returns the numbers of the summary.
func (c *Client) Figures(ctx context.Context) (Figures, error) {
	return fetch[Figures](ctx, c, "GET", "/api/v1/summary", nil, nil)
}

// CreateDrainJob begins to empty segments and returns the job's identifier.
func (c *Client) CreateDrainJob(ctx context.Context, req DrainRequest) (string, error) {
	var a jobAnswer
	err := c.call(ctx, "POST", "/api/v1/drain_jobs", nil, req, &a)
	return a.ID, err
}

// DrainJob returns a job.
func (c *Client) DrainJob(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.call(ctx, "GET", "/api/v1/drain_jobs/query", params{"job_id": id}, nil, &j)
	return j, err
}

// CancelDrainJob gives a job up.
func (c *Client) CancelDrainJob(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/api/v1/drain_jobs/cancel", params{"job_id": id}, nil, nil)
}

// Quotas lists the tenants.
func (c *Client) Quotas(ctx context.Context) ([]Quota, error) {
	return fetch[[]Quota](ctx, c, "GET", "/api/v1/tenant_quotas", nil, nil)
}

// SetQuota registers a tenant or changes its quota in bytes.
func (c *Client) SetQuota(ctx context.Context, tenant string, size int64) (Quota, error) {
	return fetch[Quota](ctx, c, "PUT", "/api/v1/tenant_quotas", params{"tenant_id": tenant}, quotaRequest{&size})
}

// DeleteQuota takes a tenant out.
func (c *Client) DeleteQuota(ctx context.Context, tenant string) error {
	return c.call(ctx, "DELETE", "/api/v1/tenant_quotas", params{"tenant_id": tenant}, nil, nil)
}

// CreateTask has a client copy or move an object and returns the task's identifier.
func (c *Client) CreateTask(ctx context.Context, req TaskRequest) (string, error) {
	t, err := fetch[TaskCreated](ctx, c, "POST", "/api/v1/tasks", nil, req)
	return t.ID, err
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	return fetch[Task](ctx, c, "GET", "/api/v1/tasks", params{"task_id": id}, nil)
}

// RemoveAll removes every object of a tenant, or with "" of all, and returns how many.
func (c *Client) RemoveAll(ctx context.Context, tenant string, force bool) (int, error) {
	var a removed
	err := c.call(ctx, "POST", "/api/v1/remove_all", params{"tenant_id": tenant, "force": strconv.FormatBool(force)}, nil, &a)
	return a.Removed, err
}

type params map[string]string

func (p params) encode() string {
	s, sep := "", "?"
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if value := p[name]; value != "" {
			s, sep = s+sep+name+"="+escape(value), "&"
		}
	}
	return s
}

func fetch[T any](ctx context.Context, c *Client, method, path string, p params, body any) (T, error) {
	var a success[T]
	err := c.call(ctx, method, path, p, body, &a)
	return a.Data, err
}

// call sends a request and decodes the answer into out, where that is not nil.
func (c *Client) call(ctx context.Context, method, path string, p params, body, out any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return errs.Wrap(errs.InvalidParams, "admin port", err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+p.encode(), content)
	if err != nil {
		return errs.Wrap(errs.InvalidParams, "admin port", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK && resp.Header.Get("WWW-Authenticate") != "" {
		return errs.New(errs.IllegalClient, "admin port "+c.base, "%.500s", bytes.TrimSpace(raw))
	}
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return errs.New(errs.DeserializeFail, "admin port "+c.base, "%s %s: the answer makes no sense: %w", method, path, err)
	}
	return nil
}

func (c *Client) unreachable(err error) error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // Without method and URL, which are long.
	}
	code := errs.RPCFail
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		code = errs.RPCTimeout
	}
	return errs.WithHint(errs.Wrap(code, "admin port "+c.base, err), "is the master running, and is this its metrics_port?")
}

func (c *Client) refused(status int, raw []byte) error {
	var f failure
	if err := json.Unmarshal(raw, &f); err != nil || f.Code == 0 {
		return errs.WithHint(errs.New(errs.RPCFail, "admin port "+c.base, "status %d: %.200q", status, raw), "is that the admin port of a master?")
	}
	// The code is named once, in front.
	text := strings.Replace(f.Detail, f.Message+": ", "", 1)
	return errs.New(errs.Code(f.Code), "", "%s", text)
}
