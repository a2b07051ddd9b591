// Command kfake runs franz-go's fake cluster for the tests and makes happen what they ask for.
//
// It prints its addresses as one JSON line, then answers each JSON line of its standard input with one of its own, and
// ends when its input does.
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

// command is one line of the input; which fields it needs depends on Do.
type command struct {
	Do         string
	API        string
	Error      int16
	Times      int // -1 is until heal
	Topic      string
	Partitions []int32
	Group      string
	Txn        string
	Whole      bool // the error is that of the request, not that of what it names
	Node       int32
	Ms         int
}

// answer is one line of the output.
type answer struct {
	Addresses []string       `json:"addresses,omitempty"`
	Requests  map[string]int `json:"requests,omitempty"`
	Node      int32          `json:"node"`
	Error     string         `json:"error,omitempty"`
}

var errDropped = errors.New("dropped on demand")

// server is the cluster, what it was asked, and what is to happen to it.
type server struct {
	cluster *kfake.Cluster
	faults  []*kfake.FaultHandle

	mu       sync.Mutex
	requests map[string]int
	// Counts up with each heal: controls of an earlier epoch do nothing.
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
	_ = out.Encode(answer{Addresses: cluster.ListenAddrs()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		var said answer
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			said, err = s.run(&asked)
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

// count counts the requests that no other control answers.
func (s *server) count(request kmsg.Request) (kmsg.Response, error, bool) {
	s.counted(request)
	return nil, nil, false
}

func (s *server) counted(request kmsg.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[kmsg.NameForKey(request.Key())]++
}

func (s *server) run(asked *command) (answer, error) {
	var said answer
	var err error
	switch asked.Do {
	case "fail":
		err = s.fail(asked)
	case "drop":
		err = s.control(asked, func(request kmsg.Request) (kmsg.Response, error, bool) {
			s.counted(request)
			s.cluster.KeepControl()
			return nil, errDropped, true
		})
	case "delay":
		err = s.control(asked, func(kmsg.Request) (kmsg.Response, error, bool) {
			s.cluster.SleepControl(func() { time.Sleep(time.Duration(asked.Ms) * time.Millisecond) })
			return nil, nil, false
		})
	case "heal":
		s.heal()
	case "requests":
		said.Requests = s.snapshot()
	case "leader":
		said.Node = s.cluster.LeaderFor(asked.Topic, asked.Partitions[0])
	case "coordinator":
		said.Node = s.cluster.CoordinatorFor(asked.Group)
	case "move":
		err = s.cluster.MoveTopicPartition(asked.Topic, asked.Partitions[0], asked.Node)
	case "move coordinators":
		s.cluster.RehashCoordinators()
	case "delete records":
		for _, partition := range asked.Partitions {
			err = errors.Join(err, s.cluster.DeleteRecords(asked.Topic, partition, -1))
		}
	case "add broker":
		said.Node, _, err = s.cluster.AddNode(-1, 0)
	case "remove broker":
		err = s.cluster.RemoveNode(asked.Node)
	default:
		err = fmt.Errorf("unknown command %q", asked.Do)
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

func (s *server) fail(asked *command) error {
	key, err := keyOf(asked.API)
	if err != nil {
		return err
	}
	fault := kfake.Fault{
		Keys:       []kmsg.Key{kmsg.Key(key)},
		Topic:      asked.Topic,
		Partitions: asked.Partitions,
		Group:      asked.Group,
		TxnID:      asked.Txn,
		TopLevel:   asked.Whole,
		Err:        kerr.TypedErrorForCode(asked.Error),
		Count:      asked.Times,
	}
	s.faults = append(s.faults, s.cluster.Fault(fault))
	return nil
}

// control has `act` decide about the next `asked.Times` requests.
func (s *server) control(asked *command, act func(kmsg.Request) (kmsg.Response, error, bool)) error {
	key, err := keyOf(asked.API)
	if err != nil {
		return err
	}
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	left := asked.Times
	s.cluster.ControlKey(key, func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.mu.Lock()
		over := s.epoch != epoch || left == 0
		if !over && left > 0 {
			left--
		}
		s.mu.Unlock()
		if over {
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
