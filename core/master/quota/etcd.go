package quota

import (
	"context"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// inEtcd is a Source in etcd, at upstream's key. Its version is the key's ModRevision.
type inEtcd struct {
	conn *etcdconn.Conn
	key  string
}

// Etcd is a Source in etcd, for the masters of a cluster, at "etcd://host:port;host:port". It does not connect. Without
// the key no tenant is registered. InvalidParams.
func Etcd(endpoints, cluster string, o etcdconn.Options) (Source, error) {
	o.Service = "tenant quota policy"
	conn, err := etcdconn.New(endpoints, o)
	if err != nil {
		return nil, err
	}
	return &inEtcd{conn: conn, key: "mooncake-store/" + cluster + "/tenant_quota_policy"}, nil
}

// String implements fmt.Stringer.
func (e *inEtcd) String() string { return e.key + " of " + e.conn.Name() }

// Close implements Source.
func (e *inEtcd) Close() { e.conn.Close() }

// Read implements Source.
func (e *inEtcd) Read(ctx context.Context) (text []byte, version string, err error) {
	err = e.conn.Do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		text, version = nil, none
		r, err := c.Get(ctx, e.key)
		if err == nil && len(r.Kvs) > 0 {
			text, version = r.Kvs[0].Value, strconv.FormatInt(r.Kvs[0].ModRevision, 10)
		}
		return err
	})
	return text, version, errs.Wrap(errs.EtcdOperationError, "tenant quota policy: read "+e.key, err)
}

// Write implements Source.
func (e *inEtcd) Write(ctx context.Context, text []byte, version string) (string, error) {
	op := "tenant quota policy: write " + e.key
	was, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return "", errs.New(errs.Internal, op, "no version was read")
	}
	var r *clientv3.TxnResponse
	err = e.conn.Do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		r, err = c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(e.key), "=", was)).Then(clientv3.OpPut(e.key, string(text))).Commit()
		return err
	})
	switch {
	case err != nil:
		return "", errs.WithHint(errs.Wrap(errs.EtcdOperationError, op, err), "look at the quotas before you try again: the change may have happened")
	case !r.Succeeded:
		return "", errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "another process has changed it meanwhile"), "try again")
	}
	return strconv.FormatInt(r.Header.Revision, 10), nil
}
