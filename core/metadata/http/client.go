package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// ClientOptions are the settings of a Client; the zero value is usable.
type ClientOptions struct {
	// Timeout bounds one request. Default 3 s.
	Timeout time.Duration
	// ConnectTimeout bounds the connection within Timeout. Default 1.5 s.
	ConnectTimeout time.Duration
	// Doors says whether connections use TLS with its certificates; nil for https:// with those of the system.
	Doors *doors.Doors
}

// Client is a metadata.Store at a URL. It does not retry: the callers know what may be
// repeated. Errors beside those of metadata.Store are RPCFail, RPCTimeout, and
// UnavailableInCurrentStatus after Close. Safe for concurrent use.
type Client struct {
	url    string
	http   *nethttp.Client
	idle   func()
	closed atomic.Bool
}

var _ metadata.Store = (*Client)(nil)

// NewClient returns a client of the service at rawURL, for example
// "http://10.0.0.1:8080/metadata". It does not connect.
func NewClient(rawURL string, opts ClientOptions) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		err = errors.New("it is not scheme, host, port and path")
	}
	if err != nil {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "metadata service", "the address %q: %w", rawURL, err),
			"use http://host:port/metadata")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 3 * time.Second
	}
	if opts.ConnectTimeout <= 0 {
		opts.ConnectTimeout = 1500 * time.Millisecond
	}
	transport := &nethttp.Transport{
		DialContext:           (&net.Dialer{Timeout: opts.ConnectTimeout}).DialContext,
		TLSHandshakeTimeout:   opts.ConnectTimeout,
		ResponseHeaderTimeout: opts.Timeout,
		MaxIdleConnsPerHost:   4,
		MaxConnsPerHost:       16,
		IdleConnTimeout:       10 * time.Second,
	}
	opts.Doors.Transport(transport, config.DoorMetadata, security.RoleMaster)
	return &Client{
		url:  u.String(),
		idle: transport.CloseIdleConnections,
		http: &nethttp.Client{Transport: transport, Timeout: opts.Timeout,
			CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse }},
	}, nil
}

// Close frees the connections; calls in progress end by themselves. Repeatable.
func (c *Client) Close() {
	c.closed.Store(true)
	c.idle()
}

// Get implements metadata.Store.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	status, body, err := c.do(ctx, nethttp.MethodGet, key, nil)
	switch {
	case err != nil:
		return nil, err
	case status == nethttp.StatusNotFound:
		return nil, metadata.ErrNotFound
	case status != nethttp.StatusOK:
		return nil, c.refused("get", key, status, body)
	}
	return body, nil
}

// Put implements metadata.Store.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	status, body, err := c.do(ctx, nethttp.MethodPut, key, value)
	switch {
	case err != nil:
		return err
	case status == nethttp.StatusOK:
		return nil
	case status == nethttp.StatusBadRequest && metadata.IsRPCMeta(key) && strings.HasPrefix(string(body), "Duplicate"):
		return metadata.ErrDuplicate
	}
	return c.refused("put", key, status, body)
}

// Delete implements metadata.Store.
func (c *Client) Delete(ctx context.Context, key string) error {
	status, body, err := c.do(ctx, nethttp.MethodDelete, key, nil)
	switch {
	case err != nil:
		return err
	case status == nethttp.StatusNotFound:
		return metadata.ErrNotFound
	case status != nethttp.StatusOK:
		return c.refused("delete", key, status, body)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, key string, body []byte) (int, []byte, error) {
	if c.closed.Load() {
		return 0, nil, errs.New(errs.UnavailableInCurrentStatus, "metadata service "+c.url, "the client was closed")
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := nethttp.NewRequestWithContext(ctx, method, c.url+"?key="+escape(key), content)
	if err != nil {
		return 0, nil, errs.Wrap(errs.InvalidParams, "metadata service", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, metadata.MaxDescriptorSize+1))
	if err != nil {
		return 0, nil, c.unreachable(err)
	}
	if len(answer) > metadata.MaxDescriptorSize {
		return 0, nil, errs.New(errs.DeserializeFail, "metadata service "+c.url, "the value of %q is larger than %d bytes", key, metadata.MaxDescriptorSize)
	}
	return resp.StatusCode, answer, nil
}

// escape encodes a key as upstream's clients do; a server that compares keys as they are
// written sees the same bytes.
func escape(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "+", "%20") }

func (c *Client) unreachable(err error) error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // Without method and URL, which are said already.
	}
	code := errs.RPCFail
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		code = errs.RPCTimeout
	}
	return errs.WithHint(errs.Wrap(code, "metadata service "+c.url, err),
		"is it running? start one with: mooncake metadata, or mooncake master --enable_http_metadata_server")
}

func (c *Client) refused(verb, key string, status int, body []byte) error {
	if len(body) > 200 {
		body = body[:200]
	}
	return errs.WithHint(errs.New(errs.RPCFail, "metadata service "+c.url, "%s %q: status %d: %q", verb, key, status, body),
		"is that the address of a metadata service?")
}
