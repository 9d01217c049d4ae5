package testplugin

// Target is what the test plugin attacks when FAULTY is attack; ATTACK has it as JSON.
type Target struct {
	// Folder and Secret are a folder, and a file in it, that are none of the plugin's. Left is a file that is left to it.
	Folder, Secret, Left string
	// TCP is an address that takes TCP and UDP, Abstract an abstract unix socket, Socket a unix socket with a path.
	TCP, Abstract, Socket string
	// Host is the number of the host's process.
	Host int
}

// Attacked begins the line of the log that has the results.
const Attacked = "attacked: "
