package endpoint

import (
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
)

// How the client spreads its requests over connections.
const (
	planSingle    = "single"     // all on one
	planResume    = "resume"     // the first on one, the others on a second that resumes its session
	planEarlyData = "early-data" // the same, with the second one's requests as early data
	planEach      = "each"       // one each
)

// Options are those that every stack has.
type Options struct {
	Port        int
	Certificate string
	PrivateKey  string
	Root        string
	Retry       bool
	Upload      bool // the client sends files from its root

	stack       Stack
	plan        string
	downloads   string
	sessionDir  string
	schedule    string
	connections int // of the client at once, which share its URLs
	urls        []string
}

// Flags are the options' flags, to which a stack adds its own before it calls Parse.
func (o *Options) Flags(stack Stack, role string) *flag.FlagSet {
	o.stack = stack
	plans := []string{planSingle, planResume}
	if stack.EarlyData {
		plans = append(plans, planEarlyData)
	}
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.StringVar(&o.plan, "plan", planSingle,
		"connections of the client: "+strings.Join(plans, ", ")+" or "+planEach)
	flags.IntVar(&o.Port, "port", 443, "UDP `port` of the server")
	flags.StringVar(&o.Certificate, "certificate", "/certs/cert.pem", "certificate chain of the server")
	flags.StringVar(&o.PrivateKey, "private-key", "/certs/priv.key", "private key of the server")
	flags.StringVar(&o.Root, "root", "/www", "`directory` with the files to be sent")
	flags.StringVar(&o.downloads, "downloads", "/downloads", "`directory` that the client writes to")
	flags.StringVar(&o.sessionDir, "session-dir", "", "`directory` in which the client keeps its session")
	flags.BoolVar(&o.Retry, "retry", false, "have every client prove its address first")
	return flags
}

// Parse reads the arguments, which end with the URLs.
func (o *Options) Parse(flags *flag.FlagSet, arguments []string) error {
	err := flags.Parse(arguments)
	o.urls = flags.Args()
	o.Upload = os.Getenv("DIRECTION") == "to_server"
	o.schedule = os.Getenv("SCHEDULE")
	if text := os.Getenv("CONNECTIONS"); text != "" {
		var failure error
		o.connections, failure = strconv.Atoi(text)
		err = errors.Join(err, failure)
	}
	return err
}

// OnOrOff makes a switch that is written "on" or "off", as all endpoints of this harness take it.
func OnOrOff(flags *flag.FlagSet, value *bool, name, usage string) {
	flags.Func(name, usage+": `on` or off", func(text string) error {
		if text != "on" && text != "off" {
			return errors.New("is on or off")
		}
		*value = text == "on"
		return nil
	})
}
