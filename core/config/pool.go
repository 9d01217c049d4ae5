package config

import "github.com/spf13/pflag"

// The flags by which every command that talks to a pool names it. masterFlag is a short name
// of --master_server_address; adminPortFlag is for commands that ask the admin port, which is
// on the master's host.
const (
	masterFlag    = "master"
	masterKey     = "store.master_server_address"
	clusterFlag   = "cluster_id"
	adminPortFlag = "metrics_port"
	adminPortKey  = "master.metrics_port"
	tokenFileFlag = "token-file"
	tokenFileKey  = "security.token_file"
)

// MasterUsage is the help of --master.
const MasterUsage = "host:port of the master, of several masters (host:port,host:port), or etcd://host:port, which knows who leads; also MOONCAKE_MASTER, or " + masterKey + " in the configuration file"

// RegisterPoolFlags adds --master, --cluster_id, --metrics_port, --token-file and --config to a command that is no role
// and asks the admin port of a pool's master. LoadPool reads them.
func RegisterPoolFlags(fs *pflag.FlagSet) {
	add(fs, GroupRole, masterFlag, "host:port", MasterUsage, "127.0.0.1:50051")
	add(fs, GroupRole, clusterFlag, "name", "cluster whose leader etcd names; also MC_STORE_CLUSTER_ID, or store.cluster_id in the file", "mooncake_cluster")
	add(fs, GroupRole, adminPortFlag, "port", "admin port on that host; also MOONCAKE_MASTER_METRICS_PORT, or "+adminPortKey+" in the file", "9003")
	add(fs, GroupRole, tokenFileFlag, "file", "file with a bearer token to show in place of a certificate; also MOONCAKE_SECURITY_TOKEN_FILE, or "+tokenFileKey+" in the file", "")
	add(fs, GroupMain, "config", "file", "configuration file (.yaml, .yml or .json); also MOONCAKE_CONFIG", "")
}

// Pool is how flags, environment and file name a pool.
type Pool struct {
	// Master is an address of the form of store.master_server_address, Cluster the one
	// whose leader etcd knows.
	Master, Cluster string
	// Store is the section store, which has what it takes to ask a directory.
	Store Store
	// Security is how the pool is reached.
	Security Security
	// AdminPort is the admin port on the host of the master that leads.
	AdminPort int
}

// LoadPool returns the pool that flags, environment and file name, in the same order of precedence as for a
// client.
func LoadPool(fs *pflag.FlagSet, environ []string) (Pool, error) {
	loaded, err := Load(Options{Role: RoleClient, Flags: fs, Environ: environ})
	if err != nil {
		return Pool{}, err
	}
	c := loaded.Config
	return Pool{Master: c.Store.MasterServerAddress, Cluster: c.Store.ClusterID, Store: c.Store, Security: c.Security, AdminPort: c.Master.MetricsPort}, nil
}

// poolFlags adds to the flags of a role those that it has as a client of a pool.
func (l *loader) poolFlags(ours map[string]field) {
	if !l.Role.node() {
		return
	}
	ours[masterFlag] = l.byKey[masterKey]
	if _, taken := ours[adminPortFlag]; !taken {
		ours[adminPortFlag] = l.byKey[adminPortKey]
	}
	ours[tokenFileFlag] = l.byKey[tokenFileKey]
	short, given := changed(l.Flags, masterFlag)
	if long, too := changed(l.Flags, "master_server_address"); given && too && short != long {
		l.problem(Origin{Layer: LayerFlag, Name: "--" + masterFlag}, masterKey, &short, "is not what --master_server_address says", "give one of them")
	}
}
