package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// dialTimeout bounds a connection to the server, and its TLS handshake.
	dialTimeout = 5 * time.Second
	// tries is how often a request is made that the server does not answer, or answers with an error of its own, and pause
	// how long after the first try the next one begins. A host does not repeat a Write that failed.
	tries = 3
	pause = 100 * time.Millisecond
)

// bucket makes requests.
type bucket struct {
	core      minio.Core
	name      string
	timeout   time.Duration // of a request whose context has no deadline
	transport *http.Transport
}

func newBucket(c *Config) (*bucket, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	creds := credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken)
	if c.AccessKey == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
		v, err := creds.GetWithContext(nil)
		if err != nil || v.AccessKeyID == "" {
			return nil, errs.WithHint(errs.New(errs.InvalidParams, "", "there are no credentials"),
				"set access_key and secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which a plugin process gets if plugins.tier.s3.env names them")
		}
	}
	limit := time.Duration(c.Timeout)
	b := &bucket{name: c.Bucket, timeout: limit, transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: limit, MaxIdleConnsPerHost: c.Requests, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
	client, err := minio.New(u.Host, &minio.Options{Creds: creds, Secure: u.Scheme == "https", Transport: b.transport, Region: c.Region, MaxRetries: tries})
	b.core.Client = client
	return b, err
}

func (b *bucket) close() { b.transport.CloseIdleConnections() }

func (b *bucket) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, b.timeout)
}

// keep makes an object whose name nothing else uses. When it returns, nothing reads the parts any more.
func (b *bucket) keep(ctx context.Context, name string, parts ...[]byte) (etag string, err error) {
	for try := 1; ; try++ {
		etag, err = b.create(ctx, name, parts...)
		if try > 1 && err != nil && missing(err) { // An earlier try has made it, and its answer was lost.
			info, err := b.core.StatObject(ctx, b.name, name, minio.StatObjectOptions{})
			return info.ETag, err
		}
		if err == nil || !maybe(err) || try == tries {
			return etag, err
		}
		select {
		case <-time.After(pause << (try - 1)):
		case <-ctx.Done():
			return "", err
		}
	}
}

// create makes an object, which must not exist yet.
func (b *bucket) create(ctx context.Context, name string, parts ...[]byte) (etag string, err error) {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return b.put(ctx, name, o, parts...)
}

// replace replaces an object, which must still be the one with this ETag.
func (b *bucket) replace(ctx context.Context, name, etag string, text []byte) (string, error) {
	var o minio.PutObjectOptions
	o.SetMatchETag(etag)
	return b.put(ctx, name, o, text)
}

// put writes an object. It tries once, as the client cannot begin with the body again.
func (b *bucket) put(ctx context.Context, name string, o minio.PutObjectOptions, parts ...[]byte) (string, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	body := newBody(parts)
	defer body.end()
	info, err := b.core.PutObject(ctx, b.name, name, body, body.size, "", "", o)
	return info.ETag, err
}

// body is what a request sends. The HTTP client may still read from it after the request was given up.
type body struct {
	size int64

	mu sync.Mutex
	r  io.Reader // nil from end on
}

func newBody(parts [][]byte) *body {
	b := &body{}
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		readers[i] = bytes.NewReader(p)
		b.size += int64(len(p))
	}
	b.r = io.MultiReader(readers...)
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return 0, io.ErrClosedPipe
	}
	return b.r.Read(p)
}

// end takes the parts away. When it returns, nothing reads them any more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r = nil
}

// get reads bytes of the object with this ETag into parts; an empty ETag is that of any object.
func (b *bucket) get(ctx context.Context, name, etag string, from uint64, parts ...[]byte) error {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	var n uint64
	for _, p := range parts {
		n += uint64(len(p))
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(int64(from), int64(from+n-1)); err != nil {
		return err
	}
	if etag != "" {
		o.Set("If-Match", `"`+etag+`"`)
	}
	r, info, _, err := b.core.GetObject(ctx, b.name, name, o)
	if err != nil {
		return err
	}
	defer r.Close()
	if uint64(info.Size) != n {
		return fmt.Errorf("the server answers with %d bytes to a request of %d", info.Size, n)
	}
	for _, p := range parts {
		if _, err := io.ReadFull(r, p); err != nil {
			return err
		}
	}
	_, err = r.Read(make([]byte, 1)) // The end, so that the connection can be used again.
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// getAll reads a small object.
func (b *bucket) getAll(ctx context.Context, name string) (text []byte, etag string, err error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	r, info, _, err := b.core.GetObject(ctx, b.name, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	text, err = io.ReadAll(io.LimitReader(r, 64<<10))
	return text, info.ETag, err
}

// list returns the objects whose names begin with prefix. The last one has an error if there was one.
func (b *bucket) list(ctx context.Context, prefix string) iter.Seq[minio.ObjectInfo] {
	return b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true})
}

// remove deletes objects, and calls gone with the name of each. Objects that do not exist are no error.
func (b *bucket) remove(ctx context.Context, names []string, gone func(name string)) error {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, n := range names {
			if !yield(minio.ObjectInfo{Key: n}) {
				return
			}
		}
	}
	results, err := b.core.RemoveObjectsWithIter(ctx, b.name, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return err
	}
	for r := range results {
		if r.Err != nil && answer(r.Err).Code != minio.NoSuchKey {
			err = errors.Join(err, r.Err)
			continue
		}
		gone(r.ObjectName)
	}
	return err
}

// answer is what the server said, zero if it did not answer.
func answer(err error) (r minio.ErrorResponse) {
	errors.As(err, &r)
	return r
}

// maybe reports that the request may have taken effect, or may yet.
func maybe(err error) bool {
	code := answer(err).StatusCode
	return code == 0 || code >= http.StatusInternalServerError
}

// missing reports that the object does not exist, or is another one.
func missing(err error) bool {
	r := answer(err)
	return r.Code == minio.NoSuchKey || r.StatusCode == http.StatusPreconditionFailed || r.StatusCode == http.StatusRequestedRangeNotSatisfiable
}

// failed makes the error of a request. code is that of a storage that fails. The cause of the context says whether the
// request was given up.
func failed(ctx context.Context, code errs.Code, op string, err error) error {
	const full = http.StatusInsufficientStorage
	op = "tier/s3: " + op
	r := answer(err)
	if errs.Is(err, errs.UnavailableInCurrentStatus) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		if errs.CodeOf(cause) == errs.UnavailableInCurrentStatus {
			return cause
		}
		return errs.Wrap(errs.RPCTimeout, op, cause)
	}
	switch {
	case r.StatusCode == full || slices.Contains([]string{"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}, r.Code):
		return permanent(errs.NoAvailableHandle, op, "%w", err)
	case r.Code == minio.NoSuchBucket:
		err = errs.WithHint(errs.New(errs.BucketNotFound, "", "%w", err), "create the bucket")
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		err = errs.WithHint(err, "check the credentials, and that they may list, read, write and delete in the bucket")
	case errors.As(err, new(*url.Error)):
		err = errs.WithHint(err, "check the endpoint, and that the server runs")
	}
	return errs.WithClass(errs.ClassLocalDevice, "", errs.New(code, op, "%w", err))
}

// permanent makes the error of one record.
func permanent(code errs.Code, op, format string, args ...any) error {
	return errs.WithClass(errs.ClassPermanent, "", errs.New(code, op, format, args...))
}
