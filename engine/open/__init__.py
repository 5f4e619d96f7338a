"""What happens before a store is ready: who wrote it last, where its log ends, recovery, cutting a torn tail."""
