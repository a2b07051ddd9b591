// Command kfake runs franz-go's fake cluster for the tests, with faults injected on request.
//
// It prints its addresses as a JSON line, then responds to each JSON line of its standard input with another line, and
// ends at the end of its input.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// command is one line of the input; its fields depend on Do.
type command struct {
	Do         string
	API        string
	Error      int16
	Times      int // -1: until heal
	Topic      string
	Partitions []int32
	Group      string
	Txn        string
	Whole      bool // sets the error of the whole request instead of its items
	Node       int32
	Ms         int
}

// response is one line of the output.
type response struct {
	Addresses []string       `json:"addresses,omitempty"`
	Requests  map[string]int `json:"requests,omitempty"`
	Node      int32          `json:"node"`
	Error     string         `json:"error,omitempty"`
}

var errDropped = errors.New("dropped on demand")

// server is the cluster, the counts of its requests, and the pending faults.
type server struct {
	cluster *kfake.Cluster
	faults  []*kfake.FaultHandle

	mu       sync.Mutex
	requests map[string]int
	// Incremented by each heal: controls of an earlier epoch do nothing.
	epoch int
}

func main() {
	brokers := flag.Int("brokers", 1, "how many")
	topics := flag.String("topics", "", "name:partitions,...")
	configs := flag.String("configs", "", "name=value,... of the brokers")
	flag.Parse()
	options := []kfake.Opt{kfake.NumBrokers(*brokers), kfake.GroupMinSessionTimeout(time.Second)}
	for _, topic := range fields(*topics) {
		var count int32
		name, number, _ := strings.Cut(topic, ":")
		if _, err := fmt.Sscan(number, &count); err != nil {
			fmt.Fprintf(os.Stderr, "-topics: %q is not name:partitions\n", topic)
			os.Exit(2)
		}
		options = append(options, kfake.SeedTopics(count, name))
	}
	named := make(map[string]string)
	for _, config := range fields(*configs) {
		name, value, _ := strings.Cut(config, "=")
		named[name] = value
	}
	if len(named) > 0 {
		options = append(options, kfake.BrokerConfigs(named))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	s := &server{cluster: cluster, requests: make(map[string]int)}
	cluster.Control(s.count)
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(response{Addresses: cluster.ListenAddrs()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var cmd command
		var said response
		err := json.Unmarshal(lines.Bytes(), &cmd)
		if err == nil {
			said, err = s.run(&cmd)
		}
		if err != nil {
			said.Error = err.Error()
		}
		if out.Encode(said) != nil {
			return
		}
	}
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// count counts the requests that no other control handles.
func (s *server) count(request kmsg.Request) (kmsg.Response, error, bool) {
	s.counted(request)
	return nil, nil, false
}

func (s *server) counted(request kmsg.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[kmsg.NameForKey(request.Key())]++
}

func (s *server) run(cmd *command) (response, error) {
	var said response
	var err error
	switch cmd.Do {
	case "fail":
		err = s.fail(cmd)
	case "drop":
		err = s.control(cmd, func(request kmsg.Request) (kmsg.Response, error, bool) {
			s.counted(request)
			s.cluster.KeepControl()
			return nil, errDropped, true
		})
	case "delay":
		err = s.control(cmd, func(kmsg.Request) (kmsg.Response, error, bool) {
			s.cluster.SleepControl(func() { time.Sleep(time.Duration(cmd.Ms) * time.Millisecond) })
			return nil, nil, false
		})
	case "heal":
		s.heal()
	case "requests":
		said.Requests = s.snapshot()
	case "leader":
		said.Node = s.cluster.LeaderFor(cmd.Topic, cmd.Partitions[0])
	case "coordinator":
		said.Node = s.cluster.CoordinatorFor(cmd.Group)
	case "move":
		err = s.cluster.MoveTopicPartition(cmd.Topic, cmd.Partitions[0], cmd.Node)
	case "move coordinators":
		s.cluster.RehashCoordinators()
	case "delete records":
		for _, partition := range cmd.Partitions {
			err = errors.Join(err, s.cluster.DeleteRecords(cmd.Topic, partition, -1))
		}
	case "add broker":
		said.Node, _, err = s.cluster.AddNode(-1, 0)
	case "remove broker":
		err = s.cluster.RemoveNode(cmd.Node)
	default:
		err = fmt.Errorf("unknown command %q", cmd.Do)
	}
	return said, err
}

func keyOf(api string) (int16, error) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == api {
			return key, nil
		}
	}
	return 0, fmt.Errorf("unknown API %q", api)
}

func (s *server) fail(cmd *command) error {
	key, err := keyOf(cmd.API)
	if err != nil {
		return err
	}
	fault := kfake.Fault{
		Keys:       []kmsg.Key{kmsg.Key(key)},
		Topic:      cmd.Topic,
		Partitions: cmd.Partitions,
		Group:      cmd.Group,
		TxnID:      cmd.Txn,
		TopLevel:   cmd.Whole,
		Err:        kerr.TypedErrorForCode(cmd.Error),
		Count:      cmd.Times,
	}
	s.faults = append(s.faults, s.cluster.Fault(fault))
	return nil
}

// control passes the next `cmd.Times` requests to `act`.
func (s *server) control(cmd *command, act func(kmsg.Request) (kmsg.Response, error, bool)) error {
	key, err := keyOf(cmd.API)
	if err != nil {
		return err
	}
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	remaining := cmd.Times
	s.cluster.ControlKey(key, func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.mu.Lock()
		expired := s.epoch != epoch || remaining == 0
		if !expired && remaining > 0 {
			remaining--
		}
		s.mu.Unlock()
		if expired {
			s.cluster.DropControl()
			return nil, nil, false
		}
		return act(request)
	})
	return nil
}

func (s *server) heal() {
	for _, fault := range s.faults {
		fault.Remove()
	}
	s.faults = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

func (s *server) snapshot() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := make(map[string]int, len(s.requests))
	for name, count := range s.requests {
		requests[name] = count
	}
	return requests
}
