package config

// required are the keys that the reference implementation's store service does not start
// without when it reads a file, in the order in which it asks for them.
var required = []string{"local_hostname", "metadata_server", "master_server_address"}

// checkService refuses what a process that was started under the store service's name needs
// and did not get: three keys of its file, or without a file the variable MOONCAKE_MASTER.
// Any other way to set them serves as well.
func (l *loader) checkService() {
	if l.Role != RoleService || !l.UpstreamDefaults {
		return
	}
	missing := func(key string) bool { return l.layers.origins["store."+key].Layer <= LayerPlugin }
	file, from := l.chooseFile()
	if file == "" {
		if key := "master_server_address"; missing(key) {
			l.problem(Origin{Layer: LayerEnv, Name: "MOONCAKE_MASTER"}, "", nil, "is not set", "set it to host:port of the master, or give --config or --master_server_address")
		}
		return
	}
	if from.Layer != LayerFile {
		from = Origin{Layer: LayerFile, File: file}
	}
	for _, key := range required {
		if missing(key) {
			l.problem(from, key, nil, "Missing required config field: "+key, "add it to the file, or give --define "+key+"=VALUE")
		}
	}
}
