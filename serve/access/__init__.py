"""Who may do what: RocketMQ's ACL 1, from its `plain_acl.yml`. Knows no server and no store."""
